package onepassword

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// fakeOp responds as op 2 does: the real one needs an account of 1Password.
const fakeOp = `#!/bin/sh
case "$*" in
"read --no-newline -- op://Private/GitHub token/credential") printf hunter2 ;;
"read --no-newline -- op://Private/none/credential")
	echo '[ERROR] 2026/11/22 21:00:00 could not read secret '"'op://Private/none/credential'"': "none" isn'"'"'t an item in the "Private" vault' >&2; exit 1 ;;
"item list --format json") echo '[{"id":"aaa","title":"GitHub token"},{"id":"bbb","title":"Note"}]' ;;
"item get aaa --format json") echo '{"fields":[{"type":"STRING","reference":"op://Private/GitHub token/username"},{"type":"CONCEALED","value":"hunter2","reference":"op://Private/GitHub token/credential"}]}' ;;
"item get bbb --format json") echo '{"fields":[]}' ;;
*) echo '[ERROR] 2026/11/22 21:00:00 You are not currently signed in.' >&2; exit 1 ;;
esac
`

func TestProvider(t *testing.T) {
	t.Parallel()
	op := filepath.Join(t.TempDir(), "op")
	if err := os.WriteFile(op, []byte(fakeOp), 0o700); err != nil {
		t.Fatal(err)
	}
	p := New(op)
	if got, err := p.Get(t.Context(), "op://Private/GitHub token/credential"); got != "hunter2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	names, err := p.List(t.Context())
	if diff := cmp.Diff([]string{"op://Private/GitHub token/credential"}, names); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for name, want := range map[string]string{
		"op://Private/none/credential": "no such secret", "op://Private/x/y": "not currently signed in",
		"github": "give op://VAULT/ITEM/FIELD", "op://x": "give op://", "--account": "is not the name",
	} {
		_, err := p.Get(t.Context(), name)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, secret.ErrNotFound) != (want == "no such secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(p.Set(t.Context(), "a", "b"), p.Delete(t.Context(), "a")); !errors.Is(err, secret.ErrReadOnly) {
		t.Error(err)
	}
	if _, err := New("thv-no-such-op").List(t.Context()); err == nil || !strings.Contains(err.Error(), "op of 1Password is not installed") {
		t.Error(err)
	}
}
