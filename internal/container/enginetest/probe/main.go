// Command probe says what it sees from inside a container. It is the only
// program in the image of the engine test suite.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	arg := ""
	if len(os.Args) > 2 {
		arg = os.Args[2]
	}
	switch os.Args[1] {
	case "echo": // standard input to standard output, with noise beside it
		buf := make([]byte, 64<<10)
		for {
			n, err := os.Stdin.Read(buf)
			os.Stdout.Write(buf[:n])
			fmt.Fprintln(os.Stderr, "noise")
			if err != nil {
				return
			}
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "bye")
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "env":
		for _, v := range os.Environ() {
			fmt.Println(v)
		}
	case "pid":
		fmt.Println(os.Getpid())
	case "cat":
		f, err := os.Open(arg)
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(os.Stdout, f)
	case "write":
		if err := os.WriteFile(arg, []byte("x"), 0o666); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("written")
	case "listen":
		listen(":" + arg)
	case "dial":
		fmt.Println(dial(arg))
	case "dial-self":
		l, err := net.Listen("tcp", ":8081")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(dial(ownAddress() + ":8081")) // the listener's backlog answers
		l.Close()
	case "interfaces":
		all, _ := net.Interfaces()
		for _, i := range all {
			if i.Flags&net.FlagUp != 0 {
				fmt.Println(i.Name)
			}
		}
	case "shout": // MiB of standard error, then a word
		n, _ := strconv.Atoi(arg)
		noise := bytes.Repeat([]byte("noise!!\n"), (1<<20)/8)
		for range n {
			os.Stderr.Write(noise)
		}
		fmt.Println("done")
	case "children": // how many of so many can be started
		n, _ := strconv.Atoi(arg)
		fmt.Println(children(n))
	case "eat": // MiB of memory, every page touched
		n, _ := strconv.Atoi(arg)
		var eaten [][]byte
		for range n {
			eaten = append(eaten, bytes.Repeat([]byte("x"), 1<<20))
		}
		fmt.Println(len(eaten))
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("listening")
		time.Sleep(time.Hour)
	}
}

// children starts processes that live until their standard input ends.
func children(n int) int {
	for i := range n {
		cmd := exec.Command("/proc/self/exe", "echo")
		in, err := cmd.StdinPipe()
		if err != nil {
			return i
		}
		if err := cmd.Start(); err != nil {
			return i
		}
		defer func() {
			in.Close()
			cmd.Wait()
		}()
	}
	return n
}

func listen(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return
	}
	if address == ":8080" {
		fmt.Println("listening")
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "probe") }))
}

func dial(address string) string {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "no"
	}
	c.Close()
	return "yes"
}

func ownAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}
