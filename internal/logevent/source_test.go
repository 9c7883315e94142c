package logevent_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// parsed has the positions in the source.
var parsed = token.NewFileSet()

// goPackage is a package that is searched for calls that log.
type goPackage struct {
	declared  *declarations
	functions map[string][]*ast.FuncDecl // and methods
}

// lines returns the calls in a function that log: methods of a logger, such methods in a variable,
// and Write of an entry that Check returned.
func (p *goPackage) lines(file *ast.File, f *ast.FuncDecl) []*line {
	s := &scope{goPackage: p, assigned: assignments(f.Body), busy: map[string]bool{}}
	var all []*line
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		l := &line{at: call.Pos()}
		args := call.Args
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			entry := s.entry(fun)
			switch {
			case entry != nil:
				l.levels, l.constant = levelsOf(entry.Args[0]), s.isConstant(entry.Args[1])
			case levelOf(fun) != "" && len(args) > 0 && !isImport(file, fun.X):
				l.levels, l.constant = []string{levelOf(fun)}, s.isConstant(args[0])
				args = args[1:]
			default:
				return true
			}
		case *ast.Ident:
			for _, value := range s.assigned[fun.Name] {
				if method, ok := value.(*ast.SelectorExpr); ok && levelOf(method) != "" {
					l.levels = append(l.levels, levelOf(method))
				}
			}
			if len(l.levels) == 0 || len(args) == 0 {
				return true
			}
			l.constant = s.isConstant(args[0])
			args = args[1:]
		default:
			return true
		}
		for _, arg := range args {
			s.carry(l, arg)
		}
		if len(l.names) > 0 {
			l.name = p.declared.events[l.names[0]].Name
		}
		all = append(all, l)
		return true
	})
	return all
}

// levelOf returns the level of a method of a logger, or "" for other methods.
func levelOf(method *ast.SelectorExpr) string {
	if name := method.Sel.Name; slices.Contains([]string{"Debug", "Info", "Warn", "Error", "DPanic", "Panic", "Fatal"}, name) {
		return strings.ToLower(name)
	}
	return ""
}

// levelsOf returns the level of a constant of zap, such as zap.InfoLevel.
func levelsOf(constant ast.Expr) []string {
	if s, ok := constant.(*ast.SelectorExpr); ok {
		return []string{strings.ToLower(strings.TrimSuffix(s.Sel.Name, "Level"))}
	}
	return nil
}

// isImport reports whether x is a package. A function such as status.Error does not log.
func isImport(file *ast.File, x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return i.Name == nil && strings.HasSuffix(strings.Trim(i.Path.Value, `"`), "/"+id.Name)
	})
}

// scope is a function, with all values that are assigned to its variables.
type scope struct {
	*goPackage
	assigned map[string][]ast.Expr
	busy     map[string]bool // variables and functions that are being visited, which may be recursive
}

func assignments(body ast.Node) map[string][]ast.Expr {
	all := map[string][]ast.Expr{}
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, left := range a.Lhs {
			id, ok := left.(*ast.Ident)
			if !ok {
				continue
			}
			value := a.Rhs[min(i, len(a.Rhs)-1)]
			if a.Tok != token.ASSIGN && a.Tok != token.DEFINE {
				value = &ast.BadExpr{From: a.Pos()} // += does not yield a constant
			}
			all[id.Name] = append(all[id.Name], value)
		}
		return true
	})
	return all
}

// isConstant reports whether a message is a literal, or a variable to which only literals are
// assigned.
func (s *scope) isConstant(message ast.Expr) bool {
	switch m := message.(type) {
	case *ast.BasicLit:
		return m.Kind == token.STRING
	case *ast.Ident:
		values := s.assigned[m.Name]
		return len(values) > 0 && !slices.ContainsFunc(values, func(v ast.Expr) bool { _, literal := v.(*ast.BasicLit); return !literal })
	}
	return false
}

// entry returns the call of Check whose entry is written here, or nil.
func (s *scope) entry(write *ast.SelectorExpr) *ast.CallExpr {
	id, ok := write.X.(*ast.Ident)
	if !ok || write.Sel.Name != "Write" {
		return nil
	}
	for _, value := range s.assigned[id.Name] {
		if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 2 {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Check" {
				return call
			}
		}
	}
	return nil
}

// carry adds the events and fields of an expression to the line.
func (s *scope) carry(l *line, e ast.Expr) {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		s.take(l, e)
	case *ast.CallExpr:
		s.call(l, e)
	case *ast.CompositeLit:
		for _, one := range e.Elts {
			s.carry(l, one)
		}
	case *ast.Ident:
		if len(s.assigned[e.Name]) == 0 {
			l.unclear = append(l.unclear, e.Name)
		}
		if s.busy["var "+e.Name] {
			return
		}
		s.busy["var "+e.Name] = true
		defer delete(s.busy, "var "+e.Name)
		for _, value := range s.assigned[e.Name] {
			s.carry(l, value)
		}
	default:
		l.unclear = append(l.unclear, types.ExprString(e))
	}
}

// take adds an event to the line.
func (s *scope) take(l *line, e *ast.SelectorExpr) {
	if _, known := s.declared.events[e.Sel.Name]; known && types.ExprString(e.X) == "logevent" {
		l.names = append(l.names, e.Sel.Name)
		return
	}
	l.unclear = append(l.unclear, types.ExprString(e))
}

// call adds a field, or the fields that a function of the package returns, to the line.
func (s *scope) call(l *line, c *ast.CallExpr) {
	name := types.ExprString(c.Fun)
	short := name[strings.LastIndex(name, ".")+1:]
	_, field := s.declared.fields[short]
	switch {
	case strings.HasPrefix(name, "logevent.") && field:
		l.fields = append(l.fields, short)
		return
	case name == "zap.Skip":
		return
	case name != "append" && len(s.functions[short]) == 0:
		l.unclear = append(l.unclear, name)
		return
	}
	for _, arg := range c.Args {
		if name == "append" || c.Ellipsis.IsValid() || strings.HasPrefix(types.ExprString(arg), "logevent.") {
			s.carry(l, arg)
		}
	}
	if s.busy["func "+short] {
		return
	}
	s.busy["func "+short] = true
	defer delete(s.busy, "func "+short)
	for _, f := range s.functions[short] {
		s.mentions(l, f)
	}
}

// mentions adds all fields that a function makes to the line.
func (s *scope) mentions(l *line, f *ast.FuncDecl) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if method, ok := call.Fun.(*ast.SelectorExpr); ok {
			if levelOf(method) != "" && len(call.Args) > 1 {
				return false // a line of its own
			}
			if _, field := s.declared.fields[method.Sel.Name]; field && types.ExprString(method.X) == "logevent" {
				l.fields = append(l.fields, method.Sel.Name)
			}
		}
		return true
	})
}
