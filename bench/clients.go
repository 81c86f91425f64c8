package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clients measures `thv client setup` of 20 clients, beside writing the same files, and
// a copy of each, by hand.
func (b *bench) clients(ctx context.Context) ([]result, error) {
	const count = 20
	address, end, err := daemon(ctx, b.probe, "-json", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	if _, err := b.thv(ctx, "run", "http://"+address+"/mcp", "--name", "clients"); err != nil {
		return nil, err
	}
	var ours, byHand []float64
	for range b.times(10) {
		took, files, err := b.setupOurs(ctx, count)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		for _, file := range files {
			for _, suffix := range []string{"", ".copy"} {
				if err := writeSynced(file + suffix); err != nil {
					return nil, err
				}
			}
		}
		ours, byHand = append(ours, milliseconds(took)), append(byHand, milliseconds(time.Since(begin)))
	}
	if _, err := b.thv(ctx, "rm", "clients"); err != nil {
		return nil, err
	}
	return []result{ratio("client setup of 20 clients", "ms", median(ours), median(byHand)).under(200, "under 200 ms")}, nil
}

// setupOurs sets up clients whose files exist, in a home directory of its own, and returns
// the files.
func (b *bench) setupOurs(ctx context.Context, count int) (time.Duration, []string, error) {
	home, err := os.MkdirTemp(b.dir, "home")
	if err != nil {
		return 0, nil, err
	}
	list := b.command(ctx, "client", "list", "-o", "json")
	list.Env = append(list.Env, "HOME="+home)
	out, err := list.Output()
	if err != nil {
		return 0, nil, err
	}
	var known []struct{ Name, File string }
	if err := json.Unmarshal(out, &known); err != nil {
		return 0, nil, err
	}
	args := []string{"client", "setup"}
	var files []string
	for _, c := range known[:count] {
		args, files = append(args, c.Name), append(files, c.File)
		if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
			return 0, nil, err
		}
		if err := os.WriteFile(c.File, []byte("{}\n"), 0o600); err != nil {
			return 0, nil, err
		}
		if filepath.Ext(c.File) != ".json" {
			if err := os.Truncate(c.File, 0); err != nil {
				return 0, nil, err
			}
		}
	}
	setup := b.command(ctx, args...)
	setup.Env = append(setup.Env, "HOME="+home)
	begin := time.Now()
	if out, err := setup.CombinedOutput(); err != nil {
		return 0, nil, fmt.Errorf("%w: %s", err, out)
	}
	took := time.Since(begin)
	remove := b.command(ctx, "client", "remove", "--all")
	remove.Env = append(remove.Env, "HOME="+home)
	if out, err := remove.CombinedOutput(); err != nil {
		return 0, nil, fmt.Errorf("%w: %s", err, out)
	}
	for _, file := range files { // the next round begins without copies
		os.Remove(file + ".thv-backup")
	}
	return took, files, nil
}

// writeSynced writes a small file and waits until it is on the disk.
func writeSynced(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString("{}\n"); err != nil {
		return err
	}
	return f.Sync()
}
