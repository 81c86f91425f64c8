package entries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonSyntax is JSON (RFC 8259) with comments and trailing commas.
type jsonSyntax struct{}

// maxDepth bounds the nesting of a file in JSON; encoding/json has the same limit.
const maxDepth = 10_000

func (jsonSyntax) number(n int) any { return json.Number(strconv.Itoa(n)) }

func (jsonSyntax) decode(content []byte) (map[string]any, error) {
	if isBlank(content) {
		return map[string]any{}, nil
	}
	if tooDeep(content) {
		return nil, fmt.Errorf("more than %d objects and arrays are nested", maxDepth)
	}
	standard, err := hujson.Standardize(bytes.Clone(content))
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(standard))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return object, nil
}

// tooDeep reports whether objects and arrays are nested deeper than maxDepth. The parser is
// recursive and has no limit.
func tooDeep(content []byte) bool {
	depth := 0
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case c == '"':
			for i++; i < len(content) && content[i] != '"'; i++ {
				if content[i] == '\\' {
					i++
				}
			}
		case c == '/' && bytes.HasPrefix(content[i:], []byte("//")):
			i = nextLine(content, i) - 1
		case c == '/' && bytes.HasPrefix(content[i:], []byte("/*")):
			end := bytes.Index(content[i+2:], []byte("*/"))
			if end < 0 {
				return false // the parser reports it
			}
			i += 2 + end + 1
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

func (s jsonSyntax) add(content []byte, p Place, name string, fields []Field) ([]byte, error) {
	if p.Listed {
		return nil, errors.New("lists of entries in JSON are not supported")
	}
	return setJSON(content, p.Path, name, fields)
}

func (jsonSyntax) change(content []byte, p Place, name string, fields []Field, drop []string) (_ []byte, err error) {
	path := append(append([]string{}, p.Path...), name)
	for _, f := range fields {
		if content, err = setJSON(content, path, f.Name, f.Value); err != nil {
			return nil, err
		}
	}
	for _, f := range drop {
		if content, err = removeJSON(content, path, f); err != nil {
			return nil, err
		}
	}
	return content, nil
}

func (jsonSyntax) remove(content []byte, p Place, name string) ([]byte, error) {
	return removeJSON(content, p.Path, name)
}

// member returns the position of a member of an object, -1 for none. A member that is there
// twice is an error: readers differ in which of them counts.
func member(object *hujson.Object, name string) (int, error) {
	at := -1
	for i, m := range object.Members {
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if at >= 0 {
			return -1, fmt.Errorf("%w: %q is there twice", ErrInvalid, name)
		}
		at = i
	}
	return at, nil
}

// openJSON parses content and returns the object at path, as far as it exists, and the rest
// of path.
func openJSON(content []byte, path []string) (root, at hujson.Value, rest []string, err error) {
	if root, err = hujson.Parse(content); err != nil {
		return root, at, nil, ErrForm // decode has accepted it
	}
	at = root
	for i, key := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return root, at, nil, fmt.Errorf("%w: %q is not in an object", ErrInvalid, key)
		}
		n, err := member(object, key)
		if err != nil {
			return root, at, nil, err
		}
		if n < 0 {
			return root, at, path[i:], nil
		}
		at = object.Members[n].Value
	}
	if _, ok := at.Value.(*hujson.Object); !ok {
		return root, at, nil, fmt.Errorf("%w: %q is not an object", ErrInvalid, strings.Join(path, "."))
	}
	return root, at, nil, nil
}

// setJSON sets the member name of the object at path, which is created if need be. value is
// that of a Field, or []Field for an object.
func setJSON(content []byte, path []string, name string, value any) ([]byte, error) {
	if isBlank(content) {
		content = apply(content, splice{0, 0, "{}" + newline(content)})
	}
	root, at, rest, err := openJSON(content, path)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		for i := len(rest) - 1; i >= 1; i-- {
			value, name = []Field{{name, value}}, rest[i]
		}
		value, name = []Field{{name, value}}, rest[0]
	}
	object, ok := at.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%w: %q is not in an object", ErrInvalid, name)
	}
	n, err := member(object, name)
	if err != nil {
		return nil, err
	}
	w := jsonWriter{content: content, nl: newline(content), unit: unitOf(content, root)}
	if n >= 0 {
		old := object.Members[n].Value
		var text strings.Builder
		w.write(&text, value, leading(content, old.StartOffset), false)
		if string(content[old.StartOffset:old.EndOffset]) == text.String() {
			return content, nil
		}
		return apply(content, splice{old.StartOffset, old.EndOffset, text.String()}), nil
	}
	return w.insert(at, object, name, value), nil
}

// removeJSON removes the member name of the object at path.
func removeJSON(content []byte, path []string, name string) ([]byte, error) {
	_, at, rest, err := openJSON(content, path)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return content, nil
	}
	object := at.Value.(*hujson.Object) // openJSON checked it
	n, err := member(object, name)
	if err != nil || n < 0 {
		return content, err
	}
	m, last := object.Members[n], n == len(object.Members)-1
	from, to := m.Name.StartOffset, m.Value.EndOffset
	if len(object.Members) == 1 && isBlank(content[at.StartOffset+1:from]) && isBlank(bytes.Replace(content[to:at.EndOffset-1], []byte(","), nil, 1)) {
		return apply(content, splice{at.StartOffset + 1, at.EndOffset - 1, ""}), nil
	}
	var splices []splice
	end := to // of what goes, including the comma
	switch {
	case !last || m.Value.AfterExtra != nil:
		comma := to + len(m.Value.AfterExtra)
		if isBlank(m.Value.AfterExtra) {
			to, end = comma+1, comma+1
		} else {
			splices, end = append(splices, splice{comma, comma + 1, ""}), comma+1
		}
	case n > 0:
		comma := object.Members[n-1].Value.EndOffset + len(object.Members[n-1].Value.AfterExtra)
		splices = append(splices, splice{comma, comma + 1, ""})
	}
	indent := lineStart(content, from)
	endsLine := isBlank(content[end:nextLine(content, end)])
	switch {
	case isBlank(content[indent:from]) && indent > 0 && endsLine && end == to:
		from = indent - 1
		if from > 0 && content[from-1] == '\r' {
			from--
		}
	case end == to && !last: // within a line
		for to < len(content) && content[to] == ' ' {
			to++
		}
	case last && n > 0:
		for content[from-1] == ' ' || content[from-1] == '\t' {
			from--
		}
	}
	return apply(content, append(splices, splice{from, to, ""})...), nil
}

// leading returns the blanks at the begin of the line with the byte at.
func leading(content []byte, at int) string {
	line := content[lineStart(content, at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// ownLine returns the indentation of the value that starts at the byte at, if it is the first
// of its line.
func ownLine(content []byte, at int) (indent string, ok bool) {
	line := content[lineStart(content, at):at]
	return string(line), isBlank(line) && lineStart(content, at) > 0
}

// unitOf returns one level of indentation of a file.
func unitOf(content []byte, root hujson.Value) string {
	if object, ok := root.Value.(*hujson.Object); ok && len(object.Members) > 0 {
		if indent, ok := ownLine(content, object.Members[0].Name.StartOffset); ok && indent != "" {
			return indent
		}
	}
	return "  "
}

// jsonWriter writes values in the style of a file.
type jsonWriter struct {
	content  []byte
	nl, unit string
}

// write appends value; the line it begins in is indented by indent.
func (w jsonWriter) write(b *strings.Builder, value any, indent string, inline bool) {
	fields, ok := value.([]Field)
	if !ok {
		b.WriteString(literal(value))
		return
	}
	sep, end := w.nl+indent+w.unit, w.nl+indent
	if inline {
		sep, end = "", ""
	}
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
			if inline {
				b.WriteByte(' ')
			}
		}
		b.WriteString(sep + literal(f.Name) + ": ")
		w.write(b, f.Value, indent+w.unit, inline)
	}
	b.WriteString(end + "}")
}

// insert adds a member at the end of object, which at holds.
func (w jsonWriter) insert(at hujson.Value, object *hujson.Object, name string, value any) []byte {
	var text strings.Builder
	if len(object.Members) == 0 {
		outer := leading(w.content, at.StartOffset)
		text.WriteString(w.nl + outer + w.unit + literal(name) + ": ")
		w.write(&text, value, outer+w.unit, false)
		if !bytes.ContainsRune(w.content[at.StartOffset:at.EndOffset], '\n') {
			text.WriteString(w.nl + outer)
		}
		return apply(w.content, splice{at.StartOffset + 1, at.StartOffset + 1, text.String()})
	}
	last := object.Members[len(object.Members)-1]
	indent, multi := ownLine(w.content, last.Name.StartOffset)
	pos, trailing := last.Value.EndOffset, last.Value.AfterExtra != nil
	if trailing {
		pos += len(last.Value.AfterExtra) + 1
	}
	sep := " "
	if multi {
		sep = w.nl + indent
	}
	text.WriteString(sep + literal(name) + ": ")
	w.write(&text, value, indent, !multi)
	var splices []splice
	if trailing {
		text.WriteByte(',')
	} else {
		splices = append(splices, splice{pos, pos, ","})
	}
	// A comment at the end of the line belongs to the member before.
	line := w.content[pos:nextLine(w.content, pos)]
	if multi && bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("//")) && bytes.HasSuffix(line, []byte("\n")) {
		pos += len(bytes.TrimRight(line, "\r\n"))
	}
	return apply(w.content, append(splices, splice{pos, pos, text.String()})...)
}
