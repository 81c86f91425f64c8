package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The official registry program, which is measured beside ours on PostgreSQL.
const (
	officialModule  = "github.com/modelcontextprotocol/registry"
	officialVersion = "v1.8.7"
)

// official is a running one, with the catalog that ours has.
type official struct {
	cmd   *exec.Cmd
	list  *walk
	ended chan error
}

// buildOfficial returns the program, built from the Go module proxy once.
func buildOfficial(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(filepath.Join("test", ".cache", "official-registry-"+officialVersion))
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "registry")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", officialModule+"/cmd/registry@"+officialVersion)
	install.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install: %w: %s", err, out)
	}
	return program, nil
}

// startOfficial starts it on a database of its own, with the same catalog. Its own import
// would take two minutes, so its rows are written directly, with the prepared answers.
func (r *registries) startOfficial(ctx context.Context, db *database) (*official, error) {
	program, err := buildOfficial(ctx)
	if err != nil {
		return nil, err
	}
	url, err := db.create()
	if err != nil {
		return nil, err
	}
	o, err := runOfficial(ctx, program, url) // makes its tables
	if err != nil {
		return nil, err
	}
	o.stop()
	o.list.want = r.catalogs()["catalog"] * catalogVersions
	if err := fillOfficial(ctx, url, o.list.want); err != nil {
		return nil, fmt.Errorf("fill it: %w", err)
	}
	want := o.list.want
	if o, err = runOfficial(ctx, program, url); err != nil {
		return nil, err
	}
	o.list.want = want
	if err := together(ctx, r.ask, o.list); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

func fillOfficial(ctx context.Context, url string, versions int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	published := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	columns := []string{"server_name", "version", "status", "status_changed_at", "published_at", "updated_at", "is_latest", "value", "listing_value", "listing_codec"}
	rows := pgx.CopyFromSlice(versions, func(i int) ([]any, error) {
		var document bytes.Buffer
		writeVersion(&document, i)
		var is struct{ Name, Version string }
		if err := json.Unmarshal(document.Bytes(), &is); err != nil {
			return nil, err
		}
		latest := i%catalogVersions == catalogVersions-1
		return []any{is.Name, is.Version, "active", published, published, published, latest, json.RawMessage(document.Bytes()), document.Bytes(), 1}, nil
	})
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"servers"}, columns, rows); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE servers")
	return err
}

// runOfficial returns when it is ready. Its settings are its defaults, but for a
// faster way of listing that it offers.
func runOfficial(ctx context.Context, program, database string) (*official, error) {
	// It reads its address from the environment only and does not report its port,
	// so a free one is chosen for it.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	var log tail
	o := &official{ended: make(chan error, 1), cmd: exec.CommandContext(ctx, program), list: &walk{list: "http://" + address + "/v0.1/servers"}}
	o.cmd.Env = append(os.Environ(),
		"MCP_REGISTRY_DATABASE_URL="+database, "MCP_REGISTRY_SERVER_ADDRESS="+address,
		"MCP_REGISTRY_PREPARED_LISTING_JSON=true",
		"MCP_REGISTRY_JWT_PRIVATE_KEY="+strings.Repeat("0b", 32)) // required
	o.cmd.Stdout, o.cmd.Stderr = io.Discard, &log
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { o.ended <- o.cmd.Wait() }()
	deadline := time.After(time.Minute)
	for {
		resp, err := http.Get(o.list.list + "?limit=1")
		if err == nil {
			resp.Body.Close()
			return o, nil
		}
		select {
		case err := <-o.ended:
			return nil, fmt.Errorf("the official registry ended: %w: %s", errors.Join(err, ctx.Err()), log.text)
		case <-deadline:
			o.stop()
			return nil, fmt.Errorf("the official registry does not answer: %s", log.text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - 4<<10; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

func (o *official) stop() {
	_ = o.cmd.Process.Kill()
	<-o.ended
}

// pages is a stream of its pages. It requires no token.
func (o *official) pages(rate int) stream { return o.list.pages(rate) }

// results are ours beside its own.
func (o *official) results(ctx context.Context, ours, its quantiles, memory float64) ([]result, error) {
	theirs, err := settled(ctx, o.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	name := "registry, PostgreSQL, beside the official " + officialVersion + ": "
	return []result{
		ratio(name+"page of 30 at 500/s, p50", "ms", ours.p50, its.p50),
		ratio(name+"page of 30 at 500/s, p99", "ms", ours.p99, its.p99),
		ratio(name+"memory, without its database's", "MiB", memory, theirs),
	}, nil
}
