package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// wordPattern is a word of a comment.
	wordPattern = regexp.MustCompile(`[A-Za-z]+`)
	// speechPattern matches the verbs that code cannot do (CONTRIBUTING.md, "Style").
	speechPattern = regexp.MustCompile(`(?i)^(say|says|said|saying|tell|tells|told|telling|hear|hears|heard|hearing|ask|asks|asked|asking|want|wants|wanted|wanting)$`)
	// personPattern matches pronouns of persons, which do not describe code.
	personPattern = regexp.MustCompile(`(?i)^(nobody|somebody|whoever)$`)
)

// counts are the measures of a tree.
type counts struct {
	files     []size                  // product files, by lines
	packages  map[string]*packageSize // by directory
	functions []int                   // lines of each function with a name
	methods   map[string]int          // by directory and type
	mutexes   int

	words, speech, persons int
	wordLines              []string // "file:line: comment line", those with a counted word
}

// size is a file's number of lines.
type size struct {
	name  string
	lines int
}

// packageSize is a package's number of files and lines.
type packageSize struct {
	files, lines int
}

// countTree counts the product files below the directories.
func countTree(root string, dirs []string) (*counts, error) {
	c := &counts{packages: map[string]*packageSize{}, methods: map[string]int{}}
	for _, dir := range dirs {
		top := filepath.Join(root, dir)
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if path != top && skipDir(d.Name()) {
					return fs.SkipDir
				}
				return nil
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return c.countFile(path, filepath.ToSlash(name))
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func skipDir(name string) bool {
	return name == "testdata" || name == "vendor" || strings.HasSuffix(name, "test") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

func (c *counts) countFile(path, name string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(f) {
		return nil
	}
	dir := filepath.ToSlash(filepath.Dir(name))
	lines := strings.Count(string(text), "\n")
	c.files = append(c.files, size{name, lines})
	if c.packages[dir] == nil {
		c.packages[dir] = &packageSize{}
	}
	c.packages[dir].files++
	c.packages[dir].lines += lines
	c.countDecls(fset, f, dir)
	c.countComments(fset, f)
	return nil
}

func (c *counts) countDecls(fset *token.FileSet, f *ast.File, dir string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			c.functions = append(c.functions, fset.Position(n.End()).Line-fset.Position(n.Pos()).Line+1)
			if n.Recv != nil && len(n.Recv.List) == 1 {
				c.methods[dir+"."+receiver(n.Recv.List[0].Type)]++
			}
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "sync" && (n.Sel.Name == "Mutex" || n.Sel.Name == "RWMutex") {
				c.mutexes++
			}
		}
		return true
	})
}

// receiver is the name of a method's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (c *counts) countComments(fset *token.FileSet, f *ast.File) {
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if directive(comment.Text) {
				continue
			}
			first := fset.Position(comment.Pos())
			for i, line := range strings.Split(comment.Text, "\n") {
				if c.countWords(line) {
					c.wordLines = append(c.wordLines, fmt.Sprintf("%s:%d: %s", first.Filename, first.Line+i, strings.TrimSpace(line)))
				}
			}
		}
	}
}

// directive reports whether a comment is for a tool, such as //go:build.
func directive(text string) bool {
	return strings.HasPrefix(text, "//") && len(text) > 2 && text[2] >= 'a' && text[2] <= 'z'
}

// countWords counts the words of one line of a comment, and reports whether one
// of them is a verb of speech or a pronoun of a person.
func (c *counts) countWords(line string) bool {
	found := false
	for _, word := range wordPattern.FindAllString(line, -1) {
		c.words++
		switch {
		case speechPattern.MatchString(word):
			c.speech++
			found = true
		case personPattern.MatchString(word):
			c.persons++
			found = true
		}
	}
	return found
}
