// Command thv-guest runs as PID 1 in the containers of Toolhaven's workloads
// and does there what the gateway requests; see package guest. Where it starts
// as root it sets up the container first; see package guest/setup. It is not started
// by hand.
//
// In a pod of a cluster the gateway is in another container:
//
//	thv-guest install PATH                        copies itself, in an init container
//	thv-guest serve --socket PATH -- COMMAND...   runs the server's COMMAND for the gateway
//
// With --program FILE, the JSON array in that file stands before COMMAND, which may be empty:
// `thv gateway entry-point` wrote it in an init container. With --drain DURATION, a gateway that is
// connected is served for that long after SIGTERM, while its calls end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/guest"
	"github.com/toolhaven/toolhaven/internal/guest/setup"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "thv-guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx := context.Background()
	if len(args) > 0 {
		switch args[0] {
		case "install":
			return install(args[1:])
		case "serve":
			serve, err := parseServe(args[1:])
			if err != nil {
				return err
			}
			return guest.ServeSocket(ctx, serve.socket, serve.drain, serve.argv, os.Stderr)
		}
	}
	first, args, err := guest.ParseSetUp(args)
	if err != nil {
		return err
	}
	if first != nil && first.Plain {
		if err := setup.CheckMounts(first.Mounts); err != nil {
			return err
		}
	} else if first != nil {
		return setup.Run(first, append([]string{os.Args[0]}, args...))
	}
	rejected, args, err := guest.ParseRejected(args)
	if err != nil {
		return err
	}
	shortcut := ""
	if len(args) > 0 {
		shortcut = args[0]
	}
	line, err := guest.OpenLine(ctx, shortcut)
	if err != nil {
		return err
	}
	return guest.Serve(ctx, line, os.Stderr, rejected)
}

var errServeUse = errors.New("use: thv-guest serve --socket ABSOLUTE-PATH [--program FILE] [--drain DURATION] -- COMMAND [ARGUMENT...]")

// serve is what the arguments of serve contain.
type serve struct {
	socket string
	drain  time.Duration
	argv   []string
}

func parseServe(args []string) (*serve, error) {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	socket, program := flags.String("socket", "", ""), flags.String("program", "", "")
	drain := flags.Duration("drain", 0, "")
	split := slices.Index(args, "--")
	if split < 0 || flags.Parse(args[:split]) != nil || flags.NArg() > 0 || !filepath.IsAbs(*socket) || *drain < 0 {
		return nil, errServeUse
	}
	s := &serve{socket: *socket, drain: *drain}
	if *program != "" {
		var err error
		if s.argv, err = readProgram(*program); err != nil {
			return nil, err
		}
	}
	if s.argv = append(s.argv, args[split+1:]...); len(s.argv) == 0 || s.argv[0] == "" {
		return nil, errServeUse
	}
	return s, nil
}

// maxProgram bounds the file with a program, in bytes.
const maxProgram = 1 << 20

func readProgram(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var argv []string
	if err := json.NewDecoder(io.LimitReader(f, maxProgram)).Decode(&argv); err != nil || len(argv) == 0 {
		return nil, fmt.Errorf("%s has no program", path)
	}
	return argv, nil
}

// install copies this program to a path, for a container whose image does not have it.
func install(args []string) error {
	if len(args) != 1 || !filepath.IsAbs(args[0]) {
		return errors.New("use: thv-guest install ABSOLUTE-PATH")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	// By a rename: the program of an earlier attempt may be half-written, or running.
	part := args[0] + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	to, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o555), to.Close()); err != nil {
		return err
	}
	return os.Rename(part, args[0])
}
