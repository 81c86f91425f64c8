package entries

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlSyntax is TOML 1.0. An entry is a table of its own: [PATH.NAME], or [[PATH]] in a
// list.
type tomlSyntax struct{}

func (tomlSyntax) number(n int) any { return int64(n) }

func (tomlSyntax) decode(content []byte) (map[string]any, error) {
	tree := map[string]any{}
	err := toml.Unmarshal(content, &tree)
	return tree, err
}

// tomlTable is a table of a file, with the lines from its header to its last value.
type tomlTable struct {
	from, to int
	listed   bool // [[...]]
	keys     []string
	values   []tomlValue
}

// tomlValue is one KEY = VALUE. from and to are the positions of the value.
type tomlValue struct {
	key      string // "" if it is dotted
	text     string // of a string
	scalar   bool
	from, to int
}

// openTOML returns the tables of a file in their order. Values before the first header are
// left out.
func openTOML(content []byte) ([]tomlTable, error) {
	var p unstable.Parser
	var tables []tomlTable
	p.Reset(content)
	for p.NextExpression() {
		e := p.Expression()
		var keys []string
		start := -1
		for it := e.Key(); it.Next(); {
			if start < 0 {
				start = int(it.Node().Raw.Offset)
			}
			keys = append(keys, string(it.Node().Data))
		}
		if e.Kind != unstable.KeyValue {
			tables = append(tables, tomlTable{
				from: lineStart(content, start), to: nextLine(content, start),
				listed: e.Kind == unstable.ArrayTable, keys: keys,
			})
			continue
		}
		if len(tables) == 0 {
			continue
		}
		end := int(e.Raw.Offset + e.Raw.Length)
		t := &tables[len(tables)-1]
		t.to = nextLine(content, end)
		v := tomlValue{}
		if len(keys) == 1 {
			v.key = keys[0]
		}
		switch value := e.Value(); value.Kind {
		case unstable.String, unstable.Bool, unstable.Integer:
			v.scalar, v.text = true, string(value.Data)
			v.from, v.to = int(value.Raw.Offset), int(value.Raw.Offset+value.Raw.Length)
		}
		t.values = append(t.values, v)
	}
	if p.Error() != nil {
		return nil, ErrForm // decode has accepted it
	}
	return tables, nil
}

func (t *tomlTable) value(key string) *tomlValue {
	for i := range t.values {
		if t.values[i].key == key {
			return &t.values[i]
		}
	}
	return nil
}

// tomlEntry returns the index of the table of an entry, and the indices of its subtables.
func tomlEntry(tables []tomlTable, p Place, name string) (at int, below []int, err error) {
	at = -1
	path := p.Path
	if !p.Listed {
		path = append(slices.Clone(path), name)
	}
	for i := range tables {
		t := &tables[i]
		isBelow := len(t.keys) > len(path) && slices.Equal(t.keys[:len(path)], path)
		switch {
		case slices.Equal(t.keys, path) && t.listed == p.Listed:
			if p.Listed {
				if is := t.value(nameMember); is == nil || is.text != name {
					if at >= 0 {
						return at, below, nil
					}
					continue
				}
			}
			at = i
		case isBelow && (at >= 0 || !p.Listed):
			below = append(below, i)
		}
	}
	if at < 0 {
		return -1, nil, ErrForm
	}
	return at, below, nil
}

func (tomlSyntax) add(content []byte, p Place, name string, fields []Field) ([]byte, error) {
	nl := newline(content)
	var b strings.Builder
	b.WriteString(appended(content))
	if len(content) > 0 {
		b.WriteString(nl)
	}
	header := tomlKey(p.Path[0])
	if p.Listed {
		header = "[[" + header + "]]"
	} else {
		header = "[" + header + "." + tomlKey(name) + "]"
	}
	b.WriteString(header + nl)
	for _, f := range fields {
		b.WriteString(tomlKey(f.Name) + " = " + literal(f.Value) + nl)
	}
	return apply(content, splice{len(content), len(content), b.String()}), nil
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(key string) string {
	if bareKey.MatchString(key) {
		return key
	}
	return literal(key)
}

func (tomlSyntax) remove(content []byte, p Place, name string) ([]byte, error) {
	tables, err := openTOML(content)
	if err != nil {
		return nil, err
	}
	at, below, err := tomlEntry(tables, p, name)
	if err != nil {
		return nil, err
	}
	var splices []splice
	for _, i := range append([]int{at}, below...) {
		t := tables[i]
		// The blank line before a table, if there is one, goes with it.
		if before := bytes.TrimSuffix(bytes.TrimSuffix(content[:t.from], []byte("\n")), []byte("\r")); t.from > 0 && (len(before) == 0 || bytes.HasSuffix(before, []byte("\n"))) {
			t.from = len(before)
		}
		splices = append(splices, splice{t.from, t.to, ""})
	}
	return apply(content, splices...), nil
}

func (tomlSyntax) change(content []byte, p Place, name string, fields []Field, drop []string) ([]byte, error) {
	tables, err := openTOML(content)
	if err != nil {
		return nil, err
	}
	at, _, err := tomlEntry(tables, p, name)
	if err != nil {
		return nil, err
	}
	t := &tables[at]
	for _, d := range drop {
		if t.value(d) != nil {
			return nil, errRewrite
		}
	}
	var splices []splice
	for _, f := range fields {
		v := t.value(f.Name)
		if v == nil || !v.scalar {
			return nil, errRewrite
		}
		if v.text != fmt.Sprint(f.Value) {
			splices = append(splices, splice{v.from, v.to, literal(f.Value)})
		}
	}
	return apply(content, splices...), nil
}
