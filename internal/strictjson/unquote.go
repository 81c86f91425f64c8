package strictjson

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote decodes a string of a text that a [Scanner] has passed, with its
// quotes. whole is false when it holds half of a surrogate pair, which becomes
// U+FFFD: such a string must not be compared.
func Unquote(quoted []byte) (text string, whole bool) {
	b := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b), true
	}
	whole = true
	var out strings.Builder
	out.Grow(len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out.WriteByte(b[i])
			continue
		}
		i++
		if b[i] != 'u' {
			out.WriteByte(unescaped(b[i]))
			continue
		}
		r, _ := hex4(b, i+1)
		if utf16.IsSurrogate(r) {
			if both, ok := pair(b, i+1); ok {
				r = both
				i += 6
			} else {
				r, whole = utf8.RuneError, false
			}
		}
		i += 4
		out.WriteRune(r)
	}
	return out.String(), whole
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default: // quote, backslash, slash
		return c
	}
}
