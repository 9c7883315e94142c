package event_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// ofZap is what anybody may use of package zap. Fields are made by package event alone.
var ofZap = map[string]bool{
	"AtomicLevel": true, "DebugLevel": true, "ErrorLevel": true, "ErrorOutput": true, "Field": true, "IncreaseLevel": true, "InfoLevel": true,
	"Logger": true, "New": true, "NewAtomicLevelAt": true, "NewNop": true, "NewStdLog": true, "Skip": true, "WarnLevel": true, "WrapCore": true,
}

// libraries pass on lines that are not ours.
var libraries = map[string]bool{"server/grpclog.go": true, "internal/apiserver/klog.go": true}

// Each call that logs has a constant message, exactly one event, a level that this
// may have, and fields that are declared for it. What reading the source cannot tell,
// the fields of With above all, is checked as lines are written: package eventtest.
func TestCalls(t *testing.T) {
	declared := readDeclarations(t)
	said := map[string]bool{}
	for _, files := range sources(t, "../..") {
		p := &goPackage{declared: declared, functions: map[string][]*ast.FuncDecl{}}
		for name, file := range files {
			if !libraries[name] {
				checkZap(t, file)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					p.functions[f.Name.Name] = append(p.functions[f.Name.Name], f)
				}
			}
		}
		for name, file := range files {
			if libraries[name] {
				continue
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					for _, l := range p.lines(file, f) {
						said[l.name] = true
						for _, problem := range l.problems(declared) {
							t.Errorf("%s: %s", parsed.Position(l.at), problem)
						}
					}
				}
			}
		}
	}
	for _, e := range event.Events() {
		ofCores := []string{event.LibraryLog.String, event.LogSuppressed.String, event.LogDropped.String}
		if !said[e.Name] && !slices.Contains(ofCores, e.Name) {
			t.Errorf("no call was found that logs %s", e.Name)
		}
	}
}

// declarations are those of package event, by their names in Go.
type declarations struct {
	events map[string]event.Event
	fields map[string]string // keys
}

func readDeclarations(t *testing.T) *declarations {
	t.Helper()
	match := func(file, pattern string) map[string]string {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			all[m[1]] = m[2]
		}
		return all
	}
	d := &declarations{events: map[string]event.Event{}, fields: map[string]string{}}
	for name, text := range match("names.go", `(?m)^\t(\w+)\s+= name\("(.+)"\)`) {
		i := slices.IndexFunc(event.Events(), func(e event.Event) bool { return e.Name == text })
		if i < 0 {
			t.Fatalf("event %s is not in the catalogue", text)
		}
		d.events[name] = event.Events()[i]
	}
	keys := match("fields.go", `(?m)^\t(\w+)\s+= Field\{"(\w+)"`)
	file, err := parser.ParseFile(parsed, "fields.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			f, function := decl.(*ast.FuncDecl)
			s, selector := n.(*ast.SelectorExpr)
			if function && selector && ast.IsExported(f.Name.Name) {
				if key := keys[types.ExprString(s.X)]; key != "" {
					d.fields[f.Name.Name] = key
				}
			}
			return true
		})
	}
	if len(d.fields) != len(keys) {
		t.Fatalf("%d functions make fields, %d fields are declared: %v", len(d.fields), len(keys), d.fields)
	}
	return d
}

// sources parses the module's Go files, but for tests and package event: by
// directory, then by path.
func sources(t *testing.T, root string) map[string]map[string]*ast.File {
	t.Helper()
	all := map[string]map[string]*ast.File{}
	module := os.DirFS(root)
	err := fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." {
			if _, other := fs.Stat(module, path.Join(name, "go.mod")); other == nil && name != "operator" || entry.Name() == "testdata" || entry.Name()[0] == '.' || name == "internal/event" {
				return fs.SkipDir
			}
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := path.Dir(name)
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][name], err = parser.ParseFile(parsed, filepath.Join(root, name), nil, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkZap looks for what a file may not use of zap.
func checkZap(t *testing.T, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "zap" && !ofZap[s.Sel.Name] || s.Sel.Name == "Sugar" {
			t.Errorf("%s: %s: fields are made by package event", parsed.Position(s.Pos()), types.ExprString(s))
		}
		return true
	})
}

// line is one call that logs, as the source has it.
type line struct {
	at       token.Pos
	levels   []string // that it may have: debug …
	constant bool     // its message
	names    []string // of events, as in Go
	name     string   // of the first event
	fields   []string // as in Go
	unclear  []string // what cannot be understood
}

func (l *line) problems(d *declarations) []string {
	var all []string
	for _, u := range l.unclear {
		all = append(all, "cannot tell which fields these are: "+u)
	}
	if !l.constant {
		all = append(all, "message is no constant")
	}
	if len(l.names) != 1 {
		return append(all, fmt.Sprintf("line has the events %v, want one", l.names))
	}
	e := d.events[l.names[0]]
	for _, level := range l.levels {
		if !slices.ContainsFunc(e.Levels, func(have event.Level) bool { return have.String() == level }) {
			all = append(all, fmt.Sprintf("%s has no level %s", e.Name, level))
		}
	}
	for _, f := range l.fields {
		key := d.fields[f]
		if !slices.Contains(append(keys(e.Must), keys(e.May)...), key) {
			all = append(all, fmt.Sprintf("%s has no field %s (%s)", e.Name, f, strconv.Quote(key)))
		}
	}
	return all
}
