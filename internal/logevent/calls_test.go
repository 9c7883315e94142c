package logevent_test

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

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// ofZap has the names of package zap that other packages may use. Only package logevent makes fields.
var ofZap = map[string]bool{
	"AtomicLevel": true, "DebugLevel": true, "ErrorLevel": true, "ErrorOutput": true, "Field": true, "IncreaseLevel": true, "InfoLevel": true,
	"Logger": true, "New": true, "NewAtomicLevelAt": true, "NewNop": true, "NewStdLog": true, "Skip": true, "WarnLevel": true, "WrapCore": true,
}

// libraries has the files that pass on the lines of libraries.
var libraries = map[string]bool{"server/grpclog.go": true, "daemon/apiserver/klog.go": true}

// Each call that logs has a constant message, exactly one event, one of the event's levels, and
// fields that are declared for the event. Package eventtest checks the rest,
// such as the fields of With, when lines are written.
func TestCalls(t *testing.T) {
	declared := readDeclarations(t)
	found := map[string]bool{}
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
						found[l.name] = true
						for _, problem := range l.problems(declared) {
							t.Errorf("%s: %s", parsed.Position(l.at), problem)
						}
					}
				}
			}
		}
	}
	for _, e := range logevent.Events() {
		ofCores := []string{logevent.LibraryLog.String, logevent.LogSuppressed.String, logevent.LogDropped.String}
		if !found[e.Name] && !slices.Contains(ofCores, e.Name) {
			t.Errorf("%s: found no call that logs it, want one", e.Name)
		}
	}
}

// declarations has the events and fields of package logevent, by their Go names.
type declarations struct {
	events map[string]logevent.Event
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
	d := &declarations{events: map[string]logevent.Event{}, fields: map[string]string{}}
	for name, text := range match("names.go", `(?m)^\t(\w+)\s+= name\("(.+)"\)`) {
		i := slices.IndexFunc(logevent.Events(), func(e logevent.Event) bool { return e.Name == text })
		if i < 0 {
			t.Fatalf("%s: found only in names.go, want a row in the catalogue", text)
		}
		d.events[name] = logevent.Events()[i]
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
		t.Fatalf("functions that make fields: found %d, want %d, one for each field: %v", len(d.fields), len(keys), d.fields)
	}
	return d
}

// modules has the folders of the other modules whose programs log these events.
var modules = []string{"dra", "operator"}

// sources parses the Go files of the module and of modules, without tests and package logevent. It returns them by
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
			if _, other := fs.Stat(module, path.Join(name, "go.mod")); other == nil && !slices.Contains(modules, name) || entry.Name() == "testdata" || entry.Name()[0] == '.' || name == "internal/logevent" {
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

// checkZap fails the test if a file uses a name of package zap that is not in ofZap.
func checkZap(t *testing.T, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "zap" && !ofZap[s.Sel.Name] || s.Sel.Name == "Sugar" {
			t.Errorf("%s: %s: found outside of package logevent, want a function of it", parsed.Position(s.Pos()), types.ExprString(s))
		}
		return true
	})
}

// line is one call that logs, in the source.
type line struct {
	at       token.Pos
	levels   []string // the levels that it may have: debug …
	constant bool     // the message is constant
	names    []string // Go names of its events
	name     string   // of the first event
	fields   []string // Go names of its fields
	unclear  []string // expressions that cannot be analysed
}

func (l *line) problems(d *declarations) []string {
	var all []string
	for _, u := range l.unclear {
		all = append(all, "found "+u+", want fields of package logevent")
	}
	if !l.constant {
		all = append(all, "message: found an expression, want a constant")
	}
	if len(l.names) != 1 {
		return append(all, fmt.Sprintf("events: found %v, want one", l.names))
	}
	e := d.events[l.names[0]]
	for _, level := range l.levels {
		if !slices.ContainsFunc(e.Levels, func(have logevent.Level) bool { return have.String() == level }) {
			all = append(all, fmt.Sprintf("%s: found level %s, want one of its levels", e.Name, level))
		}
	}
	for _, f := range l.fields {
		key := d.fields[f]
		if !slices.Contains(append(keys(e.Must), keys(e.May)...), key) {
			all = append(all, fmt.Sprintf("%s: found field %s (%s), want one of its fields", e.Name, f, strconv.Quote(key)))
		}
	}
	return all
}
