package mcp

import (
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// targets counts the members of params that select the target of a request. The gateway's
// decision and the server must use the same member, so a message is rejected if one is
// there twice, or beside one that some reader treats as it ([shadows]). They are counted
// while the message is parsed.
type targets struct {
	name, uri, taskID seen
}

// seen counts one of them.
type seen struct {
	n      int    // with the exact spelling
	shadow string // another spelling, "" for none
}

// targetOf returns the member of params that selects the target of a request of the
// method, "" for none.
func targetOf(method string) string {
	switch method {
	case MethodResourcesSubscribe, MethodResourcesUnsubscribe:
		return "uri"
	}
	return MirroredName(method)
}

// isParams reports whether a key may be params; with escapes in it, it may be any.
func isParams(rawKey []byte) bool {
	return string(rawKey) == `"params"` || containsBackslash(rawKey)
}

// read scans the value at the scanner's position in text, as [strictjson.Scanner.Value]
// does, and counts its members.
func (t *targets) read(text []byte, s *strictjson.Scanner) []byte {
	if s.Kind() != '{' {
		return s.Value()
	}
	start := s.At()
	for members := s.Enter(); s.Next(&members); {
		t.see(s.Key())
		s.Value()
	}
	if s.Err() != nil {
		return nil
	}
	return text[start:s.At():s.At()]
}

func (t *targets) see(rawKey []byte) {
	if len(rawKey) < 2 {
		return
	}
	key := rawKey[1 : len(rawKey)-1]
	if containsBackslash(key) {
		text, _ := unquote(rawKey)
		key = []byte(text)
	}
	if len(key) == 0 {
		return
	}
	switch key[0] {
	case 'n', 'N':
		t.name.note(key, "name")
	case 'u', 'U':
		t.uri.note(key, "uri")
	case 't', 'T':
		t.taskID.note(key, "taskId")
	case 0: // some readers drop NULs
		t.name.note(key, "name")
		t.uri.note(key, "uri")
		t.taskID.note(key, "taskId")
	}
}

// noteRaw is note for a key in its JSON form. Keys of ASCII that differ in length are not
// spellings of one name.
func (s *seen) noteRaw(rawKey []byte, want string) {
	switch {
	case containsBackslash(rawKey):
		key, _ := unquote(rawKey)
		s.note([]byte(key), want)
	case len(rawKey) == len(want)+2, !isASCII(rawKey):
		s.note(rawKey[1:len(rawKey)-1], want)
	}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (s *seen) note(key []byte, want string) {
	if string(key) == want {
		s.n++
	} else if s.shadow == "" && shadows(string(key), want) {
		s.shadow = string(key)
	}
}

// fault is the error for the target of a request of the method, nil if it is
// unambiguous.
func (t *targets) fault(method string) error {
	var s seen
	want := targetOf(method)
	switch want {
	case "name":
		s = t.name
	case "uri":
		s = t.uri
	case "taskId":
		s = t.taskID
	}
	switch {
	case s.n > 1:
		return badParams("the key %q is twice in the params", want)
	case s.shadow != "":
		return badParams("the key %s in the params is another spelling of %q", shown(s.shadow), want)
	}
	return nil
}
