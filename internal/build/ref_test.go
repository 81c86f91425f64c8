package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAReferenceIsReadAsTyped(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]Request{
		"npx://@scope/pkg@1.2":         {Scheme: "npx", Name: "@scope/pkg", Version: "1.2"},
		"npx://@scope/pkg":             {Scheme: "npx", Name: "@scope/pkg"},
		"npx://pkg@latest":             {Scheme: "npx", Name: "pkg", Version: "latest"},
		"uvx://mcp-server-time@1.2":    {Scheme: "uvx", Name: "mcp-server-time", Version: "1.2"},
		"uvx://Some.Name_x":            {Scheme: "uvx", Name: "Some.Name_x"},
		"go://example.com/m/cmd@v1":    {Scheme: "go", Name: "example.com/m/cmd", Version: "v1"},
		"go://example.com/m/v2@v2.0.0": {Scheme: "go", Name: "example.com/m/v2", Version: "v2.0.0"},
		"go://.":                       {Scheme: "go", Dir: here},
		"go://./x@y":                   {Scheme: "go", Dir: filepath.Join(here, "x@y")},
		"go://../x":                    {Scheme: "go", Dir: filepath.Join(filepath.Dir(here), "x")},
		"go:///abs/x":                  {Scheme: "go", Dir: "/abs/x"},
	} {
		got, err := ParseRef(arg)
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arg, diff)
		}
	}
}

func TestAReferenceOutsideItsGrammarIsRefused(t *testing.T) {
	for _, arg := range []string{
		"", "pkg", "docker://x", "npx://", "npx://-g", "npx://--prefix=/", "npx://@scope", "npx://@-x/y", "npx://a/b", "npx://../x",
		"npx://pkg@", "npx://pkg@-1", "npx://pkg@^1.2", "npx://pkg@file:../x", "npx://pkg@git+ssh://x", "npx://pkg@1 2", "npx://pkg\nRUN x",
		"uvx://", "uvx://-r", "uvx://pkg==1", "uvx://pkg@1;x", "uvx://pkg.", "uvx://a b", "uvx://$(x)", "uvx://" + strings.Repeat("a", 300),
		"go://", "go://fmt", "go://-x.com/y", "go://example.com/../y", "go://example.com/x@`y`", "go://example.com//y", "go://example.com/-y",
	} {
		if r, err := ParseRef(arg); err == nil {
			t.Errorf("%q was read as %+v", arg, r)
		}
	}
}

func TestOptionsOutsideTheirGrammarAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"option as package":     func(r *Request) { r.AddPackages = []string{"-y"} },
		"command as package":    func(r *Request) { r.AddPackages = []string{"git;id"} },
		"line in image":         func(r *Request) { r.RuntimeImage = "node:22\nRUN id" },
		"flag as image":         func(r *Request) { r.RuntimeImage = "--platform=x" },
		"tag that is none":      func(r *Request) { r.Tag = "a b" },
		"NUL in argument":       func(r *Request) { r.Args = []string{"a\x00b"} },
		"arguments without end": func(r *Request) { r.Args = []string{strings.Repeat("a", maxArgs+1)} },
		"arguments that grow":   func(r *Request) { r.Args = []string{strings.Repeat("<", maxArgs/6+1)} },
		"many empty arguments":  func(r *Request) { r.Args = make([]string, maxArgs/3+1) },
		"argument not UTF-8":    func(r *Request) { r.Args = []string{"\xff"} },
		"directory of npm":      func(r *Request) { r.Name, r.Dir = "", "/x" },
	} {
		r := Request{Scheme: "npx", Name: "pkg"}
		change(&r)
		if err := r.validate(); err == nil {
			t.Errorf("%s: %+v was accepted", name, r)
		}
	}
}

func TestARequestThatIsRefusedIsNotRepeatedRaw(t *testing.T) {
	_, err := newHouse(t).Build(t.Context(), Request{Scheme: "npx", Name: "a\x1b[31m\nRUN id"})
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("%q", err)
	}
}

// Whatever is accepted can be typed again, and no part of it is an option, a
// second line or a way out of a directory.
func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"npx://@scope/pkg@1.2", "uvx://pkg", "go://example.com/x@v1", "npx://-x", "go://./x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		r, err := ParseRef(arg)
		if err != nil || r.Dir != "" {
			return
		}
		if r.String() != arg {
			t.Fatalf("%q became %q", arg, r.String())
		}
		for _, text := range []string{r.Name, r.Version} {
			if strings.HasPrefix(text, "-") || strings.ContainsAny(text, " \t\r\n\"'`$\\;&|<>") || strings.Contains(text, "/../") {
				t.Fatalf("%q has the part %q", arg, text)
			}
		}
	})
}
