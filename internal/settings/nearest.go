package settings

import (
	"fmt"
	"strings"
)

// Nearest is the word of a list that a mistyped one probably stands for, or "" when
// none is close: at most two letters may differ.
func Nearest(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(strings.ToLower(word), strings.ToLower(k)); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts insertions, deletions and replacements of bytes; words
// that are too long to be names are far from everything.
func editDistance(a, b string) int {
	const far = 64
	if len(a) > far || len(b) > far {
		return far
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// Suggest is the end of an error about a word that is not among known: the nearest of them,
// or "" when none is close.
func Suggest(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
