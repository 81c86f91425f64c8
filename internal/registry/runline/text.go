package runline

import (
	"strings"
	"unicode"
)

// How much text of an entry is shown, in characters.
const (
	maxLabel  = 200
	maxTitle  = 100 // as server.json has it
	maxLink   = 80
	maxShown  = 300
	maxProse  = 2000
	maxListed = 200 // entries of any list
)

// maxMarks are put on one letter at most. No script needs more; a heap of them
// covers what is above and below, and cannot be broken at the end of a line.
const maxMarks = 4

// Clean makes text of others safe to show in a line: no control characters,
// nothing invisible or that turns the direction of writing, and no more than
// most characters.
func Clean(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	n, marks := 0, 0
	cut := false
	text = strings.Map(func(r rune) rune {
		if Steers(r) || cut {
			return -1
		}
		if !unicode.IsMark(r) {
			marks = 0
		} else if marks++; marks > maxMarks {
			return -1
		}
		if n++; n > most {
			cut = true
			return '…'
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}

// Steers reports characters that change how others are shown or read.
func Steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Other_Default_Ignorable_Code_Point) ||
		r == unicode.ReplacementChar || r == blankPattern
}

// blankPattern is a letter that looks like a space: BRAILLE PATTERN BLANK.
const blankPattern = '\u2800'

// Legible reports a text that is shown as it is, none of it invisible or stacked.
func Legible(text string) bool {
	marks := 0
	return !strings.ContainsFunc(text, func(r rune) bool {
		if !unicode.IsMark(r) {
			marks = 0
		} else {
			marks++
		}
		return marks > maxMarks || Steers(r) || unicode.Is(unicode.Variation_Selector, r)
	})
}

// Some is the beginning of a list, and how many are left out.
func Some[T any](list []T, most int) (shown []T, more int) {
	if len(list) > most {
		return list[:most], len(list) - most
	}
	return list, 0
}
