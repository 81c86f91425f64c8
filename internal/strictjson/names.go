package strictjson

import (
	"bytes"
	"slices"
)

// names are those of the objects around a place in a text, the outermost first.
// The first few lie in the scanner itself, so that for most texts nothing is
// allocated.
type names struct {
	few     [12]place
	n       int
	more    []place // the n-len(few) others
	decoded []byte  // escaped names, decoded
}

// place is where a name is: in the text, or behind its end in names.decoded.
type place struct{ from, to int }

// remember keeps the name at text[from:to] until the end of its object.
func (s *Scanner) remember(from, to int) {
	if s.escaped {
		from = len(s.text) + len(s.names.decoded)
		s.names.decoded = append(s.names.decoded, s.Name()...)
		to = len(s.text) + len(s.names.decoded)
	}
	if s.names.n < len(s.names.few) {
		s.names.few[s.names.n] = place{from, to}
	} else {
		s.names.more = append(s.names.more, place{from, to})
	}
	s.names.n++
}

// forget drops the names from the one numbered from on, those of an object that
// has ended, of which none may be there twice.
func (s *Scanner) forget(from int) {
	n := &s.names
	var own []place
	switch {
	case n.n <= len(n.few):
		own = n.few[from:n.n]
	case from >= len(n.few):
		own = n.more[from-len(n.few):]
	default:
		own = slices.Concat(n.few[from:], n.more)
	}
	if twice := s.repeated(own); twice != nil {
		s.refuse(NameTwice, s.at)
		s.fault.Name = string(twice)
	}
	n.n = from
	n.more = n.more[:max(0, from-len(n.few))]
}

func (s *Scanner) named(p place) []byte {
	if p.from >= len(s.text) {
		return s.names.decoded[p.from-len(s.text) : p.to-len(s.text)]
	}
	return s.text[p.from:p.to]
}

// repeated finds a name that is there twice, without comparing the names of a
// large object pair by pair. It may change their order.
func (s *Scanner) repeated(own []place) []byte {
	if len(own) <= 12 {
		for i, p := range own {
			for _, other := range own[:i] {
				if p.to-p.from == other.to-other.from && bytes.Equal(s.named(p), s.named(other)) {
					return s.named(p)
				}
			}
		}
		return nil
	}
	slices.SortFunc(own, func(a, b place) int { return bytes.Compare(s.named(a), s.named(b)) })
	for i := 1; i < len(own); i++ {
		if bytes.Equal(s.named(own[i]), s.named(own[i-1])) {
			return s.named(own[i])
		}
	}
	return nil
}
