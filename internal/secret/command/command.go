// Package command is the provider that runs a command of the user's own, which prints a
// secret: `pass show`, `gopass show -o`, `secret-tool lookup`. The command is a list of
// arguments and never reaches a shell. The secret's name is its last argument, and the
// variable THV_SECRET_NAME of its environment.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// Timeout bounds a command, which may wait for a person.
const Timeout = 2 * time.Minute

// Provider is a secret.Provider.
type Provider struct{ argv []string }

// New returns the provider of a command, which has at least its program.
func New(argv []string) (*Provider, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("the provider command needs the command that prints a secret")
	}
	return &Provider{argv}, nil
}

// About implements secret.Provider.
func (p *Provider) About() secret.About {
	return secret.About{Name: "command", Place: "the output of " + strings.Join(p.argv, " ") + " NAME", Protects: "what the command reads from protects the values"}
}

// Get implements secret.Provider.
func (p *Provider) Get(ctx context.Context, name string) (string, error) {
	if err := secret.CheckName(name); err != nil {
		return "", err
	}
	out, err := Output(ctx, append(p.argv[:len(p.argv):len(p.argv)], name), "THV_SECRET_NAME="+name)
	if err != nil {
		return "", fmt.Errorf("secret %q: %w", name, err)
	}
	value := strings.TrimRight(string(out), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%w: %q; %s printed nothing", secret.ErrNotFound, name, p.argv[0])
	}
	return secret.Checked(value)
}

// List implements secret.Provider.
func (p *Provider) List(context.Context) ([]string, error) {
	return nil, fmt.Errorf("the provider command cannot list secrets: %w", secret.ErrReadOnly)
}

// Set implements secret.Provider.
func (p *Provider) Set(context.Context, string, string) error { return readOnly() }

// Delete implements secret.Provider.
func (p *Provider) Delete(context.Context, string) error { return readOnly() }

func readOnly() error { return fmt.Errorf("the provider command is read only: %w", secret.ErrReadOnly) }

// Failed is the error of a program that ended with another status than 0.
type Failed struct {
	Program string
	Status  string // such as "exit status 1"
	Message string // what it wrote to standard error, cleaned and shortened
}

func (f *Failed) Error() string {
	if f.Message == "" {
		return f.Program + ": " + f.Status
	}
	return f.Program + ": " + f.Status + ": " + f.Message
}

// maxOutput bounds a program's output, in bytes.
const maxOutput = 16 << 20

// Output runs a program and returns its standard output. The program does not receive the
// password of the store. env are variables of its environment besides this process's own.
func Output(ctx context.Context, argv []string, env ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "THV_SECRETS_PASSWORD") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = time.Second
	stdout, stderr := &bounded{max: maxOutput}, &bounded{max: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", argv[0], context.Cause(ctx))
	case errors.As(err, &exit):
		return nil, &Failed{argv[0], exit.Error(), plaintext.Excerpt(strings.TrimSpace(stderr.kept.String()), 300)}
	case err != nil:
		return nil, err
	case stdout.kept.Len() == maxOutput:
		return nil, fmt.Errorf("%s: its output is larger than %d bytes", argv[0], maxOutput)
	}
	return stdout.kept.Bytes(), nil
}

// bounded keeps the first bytes that are written to it. The buffer is not embedded: its
// ReadFrom has no bound.
type bounded struct {
	kept bytes.Buffer
	max  int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), b.max-b.kept.Len())])
	return len(p), nil
}
