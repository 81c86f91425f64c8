package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// The bounds that the lists below the table use. They are the project's own
// (CONTRIBUTING.md, "Style").
const (
	maxFiles    = 25   // product files of a package
	maxLines    = 3000 // product lines of a package
	maxMethods  = 20   // of a type
	maxFunction = 60   // lines of a function
	maxSubject  = 72   // characters of a commit subject
)

// print writes the table, then what exceeds a bound. Subjects may be nil.
func (c *counts) print(w io.Writer, subjects []string) {
	var fileLines, packageFiles, packageLines []int
	for _, f := range c.files {
		fileLines = append(fileLines, f.lines)
	}
	for _, p := range c.packages {
		packageFiles = append(packageFiles, p.files)
		packageLines = append(packageLines, p.lines)
	}
	long := 0
	for _, n := range c.functions {
		if n > maxFunction {
			long++
		}
	}
	lines := sum(fileLines)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, values ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, values...))
	}
	row("files / lines", "%d / %d", len(fileLines), lines)
	row("file mean / median / max", "%.0f / %d / %d", mean(fileLines), median(fileLines), most(fileLines))
	row("files per package, mean / max", "%.1f / %d", mean(packageFiles), most(packageFiles))
	row("lines per package, mean / max", "%.0f / %d", mean(packageLines), most(packageLines))
	row("function mean / over 60 lines", "%.1f / %.1f %%", mean(c.functions), 100*ratio(long, len(c.functions)))
	row("mutexes per 1,000 lines", "%.1f", 1000*ratio(c.mutexes, lines))
	row("say, tell, hear, ask, want per 1,000 words of comment", "%.1f", 1000*ratio(c.speech, c.words))
	row("nobody, somebody, whoever per 1,000", "%.2f", 1000*ratio(c.persons, c.words))
	if subjects != nil {
		subjectMean, over := subjectStats(subjects)
		row("commit subject, mean length; over 72", "%.0f; %.0f %% of %d", subjectMean, over, len(subjects))
	}
	table.Flush()
	c.printExceeded(w)
}

func (c *counts) printExceeded(w io.Writer) {
	fmt.Fprintf(w, "\npackages over %d files or %d lines:\n", maxFiles, maxLines)
	for _, name := range slices.Sorted(maps.Keys(c.packages)) {
		if p := c.packages[name]; p.files > maxFiles || p.lines > maxLines {
			fmt.Fprintf(w, "  %s: %d files, %d lines\n", name, p.files, p.lines)
		}
	}
	fmt.Fprintf(w, "types with more than %d methods:\n", maxMethods)
	for _, name := range slices.Sorted(maps.Keys(c.methods)) {
		if n := c.methods[name]; n > maxMethods {
			fmt.Fprintf(w, "  %s: %d\n", name, n)
		}
	}
}

func sum(values []int) int {
	total := 0
	for _, v := range values {
		total += v
	}
	return total
}

// ratio is a/b, and 0 where b is.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func mean(values []int) float64 { return ratio(sum(values), len(values)) }

func most(values []int) int { return slices.Max(append([]int{0}, values...)) }

func median(values []int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
