package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauthclient"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/keyring"
	"github.com/toolhaven/toolhaven/internal/secret/local"
	"github.com/toolhaven/toolhaven/internal/secret/providers"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// The environment variables with the password of the encrypted secrets store, or the file
// that holds it.
const (
	EnvSecretsPassword     = "THV_SECRETS_PASSWORD"
	EnvSecretsPasswordFile = "THV_SECRETS_PASSWORD_FILE"
)

// AllSecrets opens the secrets of the user, once: a password is requested once.
func (a *App) AllSecrets() (*providers.Secrets, error) {
	if a.secrets != nil {
		return a.secrets, nil
	}
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	a.secrets, err = providers.Open(providers.Config{
		Dir: filepath.Join(dirs.State, "secrets"), Env: a.Env, Environ: os.Environ,
		Password: func(ctx context.Context, q local.Question) (string, error) { return password(ctx, a, q) },
		Keys:     keyring.New(a.Env), Handed: a.handed,
	})
	return a.secrets, err
}

// Secrets opens the local store of secrets.
func (a *App) Secrets() (*local.Store, error) {
	all, err := a.AllSecrets()
	if err != nil {
		return nil, err
	}
	return all.Store(), nil
}

// CheckSecret returns an error, with the nearest name, if the user has no secret of that
// name. Its value is read now, and once.
func (a *App) CheckSecret(ctx context.Context, name string) error {
	all, err := a.AllSecrets()
	if err != nil {
		return err
	}
	_, err = all.Get(ctx, name)
	return err
}

// Receive takes what the process that started this owner has handed over.
func (a *App) Receive(line []byte) error {
	h := &providers.Handover{}
	if len(line) > 0 && json.Unmarshal(line, h) != nil { // the error could quote a value
		return errors.New("the gateway did not understand what was handed over to it")
	}
	a.handed = h
	return nil
}

// Unlock reads the secrets of a workload, so that what is missing or locked is an error
// before anything starts.
func (a *App) Unlock(ctx context.Context, spec *workload.Spec) error {
	_, err := handover(ctx, a, spec)
	return err
}

// handover is manager.Config.Handover.
func handover(ctx context.Context, a *App, spec *workload.Spec) ([]byte, error) {
	all, err := a.AllSecrets()
	if err != nil {
		return nil, err
	}
	refs := spec.SecretRefs()
	if spec.Remote != nil && spec.Remote.Auth != nil && spec.Remote.Auth.Login != "" {
		refs = append(refs, oauthclient.Reference(spec.Remote.Auth.Login)) // the owner renews it
	}
	h, err := all.Handover(ctx, refs)
	if err != nil {
		return nil, err
	}
	return json.Marshal(h)
}

// forgetSecrets is manager.Config.Forget. A workload without secrets needs no password.
func forgetSecrets(a *App, name string) error {
	ctx := context.Background()
	store, err := a.Secrets()
	if err != nil {
		return err
	}
	workloads, err := a.Store()
	if err != nil {
		return err
	}
	own := func(ref string) bool { return strings.HasPrefix(ref, secret.Ref(name, "")) }
	if spec, err := workloads.Get(name); err == nil && !slices.ContainsFunc(spec.SecretRefs(), own) {
		return nil
	}
	return store.Forget(ctx, name)
}

// password is the password of the secrets store: that of the environment, else of the file
// it names, else what is typed at the terminal.
func password(ctx context.Context, a *App, q local.Question) (string, error) {
	wrong := func(from string) error {
		return fmt.Errorf("%w: that in %s does not open %s", local.ErrPassword, from, q.File)
	}
	if q.New && a.NewPasswordFile != "" {
		return passwordFile(a.NewPasswordFile)
	}
	if password := a.Env(EnvSecretsPassword); password != "" && a.PasswordFile == "" {
		if q.Wrong > 0 {
			return "", wrong(EnvSecretsPassword)
		}
		return password, nil
	}
	file := a.PasswordFile
	if file == "" {
		file = a.Env(EnvSecretsPasswordFile)
	}
	if file != "" {
		if q.Wrong > 0 {
			return "", wrong(file)
		}
		return passwordFile(file)
	}
	in, ok := terminal(a)
	if !ok {
		return "", fmt.Errorf("its password is needed; set %s to a file with it, or %s, or run this on a terminal", EnvSecretsPasswordFile, EnvSecretsPassword)
	}
	if q.Wrong == 3 {
		return "", fmt.Errorf("%w: three were given that do not open %s", local.ErrPassword, q.File)
	}
	if q.New {
		return newPassword(ctx, a, in)
	}
	prompt := "Password of the secrets store: "
	if q.Wrong > 0 {
		prompt = "That is not its password. " + prompt
	}
	return typed(ctx, a, in, prompt)
}

func passwordFile(file string) (string, error) {
	password, err := netguard.ReadSecret(file)
	if err != nil {
		err = fmt.Errorf("the file with the password of the secrets store: %w", err)
	}
	return password, err
}

// newPassword reads a password twice.
func newPassword(ctx context.Context, a *App, in *os.File) (string, error) {
	first, err := typed(ctx, a, in, "New password of the secrets store: ")
	if err != nil {
		return "", err
	}
	if first == "" {
		return "", errors.New("the password is empty")
	}
	second, err := typed(ctx, a, in, "The same password again: ")
	if err == nil && first != second {
		err = errors.New("the two passwords differ")
	}
	return first, err
}

// ReadHidden prompts for a value that the terminal does not show. ok is false without a
// terminal.
func (a *App) ReadHidden(ctx context.Context, prompt string) (text string, ok bool, err error) {
	in, ok := terminal(a)
	if !ok {
		return "", false, nil
	}
	text, err = typed(ctx, a, in, prompt)
	return text, true, err
}

func terminal(a *App) (in *os.File, ok bool) {
	in, ok = a.In.(*os.File)
	return in, ok && render.IsTerminal(a.In) && render.IsTerminal(a.Err)
}

// typed reads a line from a terminal that does not show it.
func typed(ctx context.Context, a *App, in *os.File, prompt string) (string, error) {
	fmt.Fprint(a.Err, prompt)
	text, err := render.NewInput(in).Read(ctx, true)
	fmt.Fprintln(a.Err)
	return text, err
}
