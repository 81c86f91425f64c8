package render

import (
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// columns is how many columns the terminal w has; 0 when w is none, or does not say.
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

// width is how many columns s takes on a terminal: East Asian wide characters and emoji
// take two (Unicode Standard Annex 11), ambiguous ones one, combining ones none.
func width(s string) int { return uniseg.StringWidth(s) }

// cut is s in at most n columns; that something is missing is shown.
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

// padded is s with spaces after it, in n columns.
func padded(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }

// leastWidth is what a column is not cut below.
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
