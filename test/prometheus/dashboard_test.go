package prometheus_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const dashboardFile = "../../deploy/grafana/dashboard.json"

// dashboard is that part of Grafana's model which is looked at here.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	ID            *int // Grafana's own: a file has none
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type, AllValue string
			IncludeAll           bool
		}
	}
	Annotations struct {
		List []struct {
			Name, Expr string
		}
	}
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource *source
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct {
		RefID      string
		Expr       string
		Datasource *source
	}
}

type source struct{ Type, UID string }

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// query is an expression of the dashboard.
type query struct{ panel, expr string }

// queries returns all of them, with a value for each variable.
func (d dashboard) queries() []query {
	values := strings.NewReplacer("$node", ".*", "$__rate_interval", "1m")
	var all []query
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title, values.Replace(target.Expr)})
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			all = append(all, query{"annotation " + a.Name, values.Replace(a.Expr)})
		}
	}
	return all
}

// What Grafana needs to show the file: each panel is of its own kinds, asks the
// source that is chosen, and stands on no other.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "accelerator-device-plugin" || d.Title == "" || d.SchemaVersion < 36 || d.ID != nil {
		t.Errorf("uid %q, title %q, schema version %d, id %v", d.UID, d.Title, d.SchemaVersion, d.ID)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	if !slices.Equal(variables, []string{"datasource datasource", "node query"}) {
		t.Errorf("variables %q", variables)
	}
	core := []string{"row", "stat", "timeseries", "table", "heatmap"}
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || !slices.Contains(core, p.Type) {
			t.Errorf("panel %d %q of type %q: want an id of its own, a title, a type of %q", p.ID, p.Title, p.Type, core)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is wider than the page", p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" {
					t.Fatalf("%q stands on %q", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		chosen := source{"prometheus", "${datasource}"}
		if p.Datasource == nil || *p.Datasource != chosen || len(p.Targets) == 0 {
			t.Errorf("%s: source %v, %d targets", p.Title, p.Datasource, len(p.Targets))
		}
		for i, target := range p.Targets {
			if target.RefID != string(rune('A'+i)) || target.Datasource == nil || *target.Datasource != chosen {
				t.Errorf("%s: target %q, source %v", p.Title, target.RefID, target.Datasource)
			}
			if !strings.Contains(target.Expr, `node=~"$node"`) {
				t.Errorf("%s: does not follow the variable node: %s", p.Title, target.Expr)
			}
		}
	}
}
