package strictjson

// Items is a walk over the members of one object or the elements of one array.
type Items struct {
	close byte // with which it ends
	begun bool
	names int // how many the scanner kept before its own
}

// Enter begins a walk over the object or array that begins here: before each of
// its values [Scanner.Next] returns true, and the value must be passed before the
// next call. Another value is a fault.
func (s *Scanner) Enter() Items {
	if s.fault != nil {
		return Items{}
	}
	s.pass()
	items := Items{names: s.names.n}
	switch {
	case s.at < len(s.text) && s.text[s.at] == '{':
		items.close = '}'
	case s.at < len(s.text) && s.text[s.at] == '[':
		items.close = ']'
	default:
		s.refuseKind()
		return items
	}
	if s.depth >= s.room {
		s.refuse(TooDeep, s.at)
		return items
	}
	s.at++
	s.depth++
	return items
}

// Next moves to the next value. It returns false at the end of the object or array, and
// after a fault.
func (s *Scanner) Next(items *Items) bool {
	if s.fault != nil {
		return false
	}
	s.pass()
	if s.at >= len(s.text) {
		return s.cut(items)
	}
	switch c := s.text[s.at]; {
	case c == items.close:
		s.at++
		s.depth--
		if c == '}' && s.rules&UniqueNames != 0 {
			s.forget(items.names)
		}
		return false
	case !items.begun:
		items.begun = true
	case c == ',':
		s.at++
		s.pass()
	default:
		s.refuse(items.noComma(), s.at)
		return false
	}
	return items.close == ']' || s.member()
}

// cut is for a text that ends before the array or object does.
func (s *Scanner) cut(items *Items) bool {
	switch {
	case items.begun:
		s.refuse(items.noComma(), s.at)
	case items.close == '}':
		s.refuse(TheEnd, s.at)
	default:
		items.begun = true
		return true // reading the first value reports the fault
	}
	return false
}

func (items *Items) noComma() Problem {
	if items.close == '}' {
		return NoCommaInObject
	}
	return NoCommaInArray
}

// member passes a name and its colon.
func (s *Scanner) member() bool {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		s.refuse(NoName, s.at)
		return false
	}
	start := s.at
	escaped := s.quoted()
	if s.fault != nil {
		return false
	}
	s.key, s.escaped = s.text[start:s.at:s.at], escaped
	if s.rules&UniqueNames != 0 {
		s.remember(start+1, s.at-1)
	}
	s.pass()
	if s.at >= len(s.text) || s.text[s.at] != ':' {
		s.refuse(NoColon, s.at)
		return false
	}
	s.at++
	s.pass()
	return true
}

// Key is the text of a member's name, with its quotes. It is valid from [Scanner.Next]
// until the value is passed or entered.
func (s *Scanner) Key() []byte { return s.key }

// Name is the decoded [Scanner.Key]. Half of a surrogate pair, unless a rule rejects it,
// becomes U+FFFD.
func (s *Scanner) Name() string {
	switch {
	case len(s.key) == 0:
		return ""
	case s.escaped:
		name, _ := Unquote(s.key)
		return name
	}
	return string(s.key[1 : len(s.key)-1])
}
