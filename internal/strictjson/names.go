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
	if twice := n.repeated(s.text, own); twice != nil {
		s.refuse(NameTwice, s.at)
		s.fault.Name = string(twice)
	}
	n.n = from
	n.more = n.more[:max(0, from-len(n.few))]
}

// at returns the name at a place.
func (n *names) at(text []byte, p place) []byte {
	if p.from >= len(text) {
		return n.decoded[p.from-len(text) : p.to-len(text)]
	}
	return text[p.from:p.to]
}

// repeated finds a name that is twice in own, without comparing the names of a
// large object pair by pair. It may change their order.
func (n *names) repeated(text []byte, own []place) []byte {
	if len(own) <= 12 {
		for i, p := range own {
			for _, other := range own[:i] {
				if p.to-p.from == other.to-other.from && bytes.Equal(n.at(text, p), n.at(text, other)) {
					return n.at(text, p)
				}
			}
		}
		return nil
	}
	slices.SortFunc(own, func(a, b place) int { return bytes.Compare(n.at(text, a), n.at(text, b)) })
	for i := 1; i < len(own); i++ {
		if bytes.Equal(n.at(text, own[i]), n.at(text, own[i-1])) {
			return n.at(text, own[i])
		}
	}
	return nil
}
