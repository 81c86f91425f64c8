package settings

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAChangeKeepsTheRestOfTheFile(t *testing.T) {
	const url = "https://b.example"
	for name, c := range map[string]struct {
		before, key, value string
		after              string // "": it is refused
	}{
		"no file":            {"", "registry", url, "registry: https://b.example\n"},
		"comments alone":     {"# mine\n\n# registry: x", "registry", url, "# mine\n\n# registry: x\nregistry: https://b.example\n"},
		"another value":      {"# top\n\n# why\nregistry: https://a.example # work\n# certificates\ncaCert: /x\n# end\n", "registry", url, "# top\n\n# why\nregistry: https://b.example # work\n# certificates\ncaCert: /x\n# end\n"},
		"one more":           {"# mine\ncaCert: '/x' # of the company\n", "registry", url, "# mine\ncaCert: '/x' # of the company\nregistry: https://b.example\n"},
		"quotes stay":        {"registry: \"https://a.example\"\n", "registry", url, "registry: \"https://b.example\"\n"},
		"taken out":          {"# top\n\n# why\nregistry: https://a.example\n# certificates\ncaCert: /x\n", "registry", "", "# top\n\n# certificates\ncaCert: /x\n"},
		"nothing to take":    {"# mine\n\n\ncaCert:   /x\n", "registry", "", "# mine\n\n\ncaCert:   /x\n"},
		"the same value":     {"registry:    https://b.example\n\n\n# x\n", "registry", url, "registry:    https://b.example\n\n\n# x\n"},
		"the last taken out": {"# top\n\nregistry: https://a.example\n", "registry", "", "# top\n\n{}\n"},
		"the first again":    {"# top\n\n{}\n", "registry", url, "# top\n\nregistry: https://b.example\n"},
		"braces":             {"{registry: https://a.example, caCert: /x}\n", "registry", url, "registry: https://b.example\ncaCert: /x\n"},
		"a folded value":     {"registry: >-\n  https://\n  a.example\ncaCert: /x\n", "registry", url, "registry: https://b.example\ncaCert: /x\n"},
		"looks like another": {"caCert: /x\n", "registry", "123", "caCert: /x\nregistry: \"123\"\n"},
		"an anchor in use":   {"registry: &a /x\ncaCert: *a\n", "registry", url, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := findKey(c.key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := edit([]byte(c.before), k, c.value)
			if (err == nil) != (c.after != "") {
				t.Fatalf("%q, %v", got, err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
