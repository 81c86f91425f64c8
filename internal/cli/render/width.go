package render

import (
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// columns returns the number of columns of the terminal w; 0 when it is not known.
func columns(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// width returns the number of columns of s on a terminal: two for East Asian wide
// characters and emoji (Unicode Standard Annex 11), one for ambiguous ones, none for
// combining ones.
func width(s string) int { return uniseg.StringWidth(s) }

// cut returns s in at most n columns, with an ellipsis when it was longer.
func cut(s string, n int) string {
	if width(s) <= n {
		return s
	}
	const more = "…"
	var out strings.Builder
	for room, state := n-width(more), -1; s != ""; {
		var character string
		var size int
		character, s, size, state = uniseg.FirstGraphemeClusterInString(s, state)
		if room -= size; room < 0 {
			break
		}
		out.WriteString(character)
	}
	return out.String() + more
}

// padded returns s with spaces after it, in n columns.
func padded(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }

// leastWidth is the number of columns below which no cell is cut.
const leastWidth = 8

// fit shortens columns, the widest first, until they and the gaps between them fit into
// total, or no more can be cut, and returns the gap. The first column and those in whole
// stay as they are; total 0 is no limit.
func fit(sizes []int, total int, whole []int) (gap int) {
	gap = 3
	if total == 0 {
		return gap
	}
	over := -total
	for _, size := range sizes {
		over += size
	}
	if over+gap*(len(sizes)-1) > 0 {
		gap = 2 // before anything is cut
	}
	for over += gap * (len(sizes) - 1); over > 0; over-- {
		widest := -1
		for i, size := range sizes {
			if i > 0 && size > leastWidth && !slices.Contains(whole, i) && (widest < 0 || size > sizes[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		sizes[widest]--
	}
	return gap
}
