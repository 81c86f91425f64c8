// Metrics prints measures of this repository's product code: sizes of files,
// packages and functions, mutexes, the words of comments, and commit subjects.
//
//	go run ./tools/metrics [-root DIR] [-commits RANGE] [-words] [DIR ...]
//
// The directories (default: cmd and internal) are relative to the root. Product
// code is every Go file except tests, generated files, testdata, and packages
// that exist for tests (their name ends in "test").
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"
)

func main() {
	root := flag.String("root", ".", "the repository")
	commits := flag.String("commits", "HEAD", "the commits whose subjects are measured, as for git log; empty for none")
	words := flag.Bool("words", false, "list each comment line with a word that is counted")
	flag.Parse()
	if err := run(context.Background(), *root, *commits, *words, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, commits string, words bool, dirs []string) error {
	explicit := len(dirs) > 0
	if !explicit {
		dirs = []string{"cmd", "internal"}
	}
	c, err := countTree(root, dirs)
	if err != nil {
		return err
	}
	if words {
		for _, line := range c.wordLines {
			fmt.Println(line)
		}
		return nil
	}
	var subjects []string
	if commits != "" && !explicit {
		if subjects, err = commitSubjects(ctx, root, commits); err != nil {
			return err
		}
	}
	c.print(os.Stdout, subjects)
	return nil
}

// commitSubjects returns the first lines of the messages of a range of commits.
func commitSubjects(ctx context.Context, root, commits string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "log", "--format=%s", commits, "--").Output()
	if err != nil {
		return nil, fmt.Errorf("git log %s: %w", commits, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// subjectStats returns the mean length in characters, and the share in percent
// that is longer than the most that CONTRIBUTING.md allows.
func subjectStats(subjects []string) (mean, long float64) {
	total, over := 0, 0
	for _, s := range subjects {
		n := utf8.RuneCountInString(s)
		total += n
		if n > maxSubject {
			over++
		}
	}
	return ratio(total, len(subjects)), 100 * ratio(over, len(subjects))
}
