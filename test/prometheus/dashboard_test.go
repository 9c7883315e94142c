package prometheus_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const dashboardFile = "../../deploy/grafana/dashboard.json"

// dashboard is the part of Grafana's model that these tests check.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	ID            *int // assigned by Grafana, and must not be in the file
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

// query is one of the dashboard's expressions and the title of its panel.
type query struct{ panel, expr string }

// queries returns all queries with the variables replaced by values.
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

// The file is a dashboard that Grafana can show: each panel has a built-in type, queries the selected data source, and
// doesn't overlap another panel.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "accelerator-device-plugin" || d.Title == "" || d.SchemaVersion < 36 || d.ID != nil {
		t.Errorf("found uid %q, title %q, schema version %d, id %v; want uid accelerator-device-plugin, a title, version 36 or newer, no id", d.UID, d.Title, d.SchemaVersion, d.ID)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	if !slices.Equal(variables, []string{"datasource datasource", "node query"}) {
		t.Errorf("variables: found %q, want datasource and node", variables)
	}
	core := []string{"row", "stat", "timeseries", "table", "heatmap"}
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || !slices.Contains(core, p.Type) {
			t.Errorf("panel: found id %d, title %q, type %q; want a unique id, a title, a type of %q", p.ID, p.Title, p.Type, core)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: right edge: found %d, want at most 24", p.Title, p.GridPos.X+p.GridPos.W)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" {
					t.Fatalf("panel %q overlaps %q", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		chosen := source{"prometheus", "${datasource}"}
		if p.Datasource == nil || *p.Datasource != chosen || len(p.Targets) == 0 {
			t.Errorf("%s: found source %v, %d targets; want source %v and a target", p.Title, p.Datasource, len(p.Targets), chosen)
		}
		for i, target := range p.Targets {
			if target.RefID != string(rune('A'+i)) || target.Datasource == nil || *target.Datasource != chosen {
				t.Errorf("%s: found target %q, source %v; want %c, source %v", p.Title, target.RefID, target.Datasource, 'A'+i, chosen)
			}
			if !strings.Contains(target.Expr, `node=~"$node"`) {
				t.Errorf("%s: found expression %s, want one with the variable node", p.Title, target.Expr)
			}
		}
	}
}

// A change counts even if its series is new. Devices that a new pod finds don't count as changes.
func TestChangesOfHealth(t *testing.T) {
	all := readDashboard(t).queries()
	i := slices.IndexFunc(all, func(q query) bool { return q.panel == "Changes of health" })
	if i < 0 {
		t.Fatal("found no panel Changes of health")
	}
	tests := filepath.Join(t.TempDir(), "tests.yaml")
	write(t, tests, fmt.Sprintf(`
tests:
- interval: 15s
  input_series:
  - {series: 'accelerator_build_info{node="n", instance="a"}', values: 1x40}
  - {series: 'accelerator_build_info{node="n", instance="b"}', values: _x20 1x20}
  - {series: 'accelerator_device_transitions_total{node="n", instance="a", new="healthy"}', values: 8x40}
  - {series: 'accelerator_device_transitions_total{node="n", instance="a", new="unhealthy"}', values: _x20 1x20}
  - {series: 'accelerator_device_transitions_total{node="n", instance="b", new="healthy"}', values: _x20 8x20}
  promql_expr_test:
  - {expr: %q, eval_time: 5m, exp_samples: [{labels: '{new="healthy"}', value: 0}, {labels: '{new="unhealthy"}', value: 1}]}
`, all[i].expr))
	t.Log(output(t, *tool, "test", "rules", tests))
}
