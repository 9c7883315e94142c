package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// row is a row in the table that bench prints.
type row struct {
	what, aim string
	measured  func(results) string
}

// group is a run of Go benchmarks, and the rows that show its results.
type group struct {
	name string // ROWS selects groups by this name
	// The arguments to go test. Without a pkg, nothing is run, and the rows show file sizes.
	module, pkg, bench string
	flags              []string
	rows               []row
}

const (
	external = "./test/bench"
)

// groups returns the groups of benchmarks in the table. dir is the directory with the programs.
func groups(dir string) []group {
	size := func(name string) func(results) string {
		return func(r results) string {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				r.fail(err)
				return ""
			}
			return fmt.Sprintf("%.1f MB", float64(info.Size())/1e6)
		}
	}
	format := func(format string, keys ...string) func(results) string {
		return func(r results) string {
			var values []any
			for _, key := range keys {
				values = append(values, r.at(key, 0.5))
			}
			return fmt.Sprintf(format, values...)
		}
	}
	return []group{
		{"size of the binaries", "", "", "", nil, []row{
			// The DRA driver's other costs are measured by the dra-costs story in make e2e, because they require an API
			// server.
			{"binary `accelerator-device-plugin`, static", "≤ 20 MB", size("accelerator-device-plugin")},
			{"binary `accelerator-dra-driver`, static", "≤ 60 MB", size("accelerator-dra-driver")},
			{"binary `accelerator-fpga`, static", "≤ 8 MB", size("accelerator-fpga")},
		}},
		{"start to first list, 20 times", ".", external, "Start", []string{"-benchtime=20x"}, []row{
			{"process start → first list received, 32 ports", "≤ 50 ms", format("median %.2f ms, worst of 20 %.2f ms", "Start p50-ms", "Start max-ms")},
		}},
		{"hook of a container whose cards are programmed already, 500 times", ".", external, "Hook", []string{"-benchtime=500x"}, []row{
			{"hook at container start, AFU already loaded, 32 cards", "median ≤ 30 ms", format("median %.2f ms, p99 %.2f ms, worst of 500 %.2f ms", "Hook p50-ms", "Hook p99-ms", "Hook max-ms")},
		}},
		{"change to list, 2000 times", ".", external, "Change", []string{"-benchtime=2000x"}, []row{
			{"attribute changes → simulated kubelet receives the list, 32 ports", "median ≤ 1 ms, p99 ≤ 5 ms", format("median %.2f ms, p99 %.2f ms, worst of 2000 %.2f ms", "Change p50-ms", "Change p99-ms", "Change max-ms")},
		}},
		{"removed device node to list, 500 times", ".", external, "Gone", []string{"-benchtime=500x"}, []row{
			{"device node is removed → simulated kubelet receives the list, 32 ports", "median ≤ 1 ms, p99 ≤ 5 ms", format("median %.2f ms, p99 %.2f ms, worst of 500 %.2f ms", "Gone p50-ms", "Gone p99-ms", "Gone max-ms")},
		}},
		{"memory and idle CPU, two minutes", ".", external, "Idle/ports", []string{"-benchtime=1x"}, []row{
			{"CPU time while nothing changes, 8 ports", "≤ 0.1 %", format("%.3f %% of a core", "Idle/ports=8 cpu-%")},
			{"resident memory, 32 ports, after a minute", "≤ 24 MiB", format("%.1f MiB", "Idle/ports=32 MiB")},
			{"CPU time while nothing changes, 32 ports", "≤ 0.3 %", format("%.3f %% of a core", "Idle/ports=32 cpu-%")},
		}},
		{"memory and idle CPU with functions on vfio-pci, a minute", ".", external, "Idle/functions", []string{"-benchtime=1x"}, []row{
			{"CPU time while nothing changes, 64 virtual functions on `vfio-pci`", "≤ 0.5 %", format("%.3f %% of a core", "Idle/functions=64 cpu-%")},
		}},
		{"memory under scrapes, a minute", ".", external, "Scrape", []string{"-benchtime=1x"}, []row{
			{"resident memory, 32 ports, after 20 scrapes", "≤ 24 MiB", format("%.1f MiB", "Scrape MiB")},
			{"CPU time per scrape, 32 ports", "≤ 15 ms (0.1 % of a core, every 15 s)", format("%.2f ms", "Scrape cpu-ms")},
		}},
		{"cost of one card's change at 1, 32 and 1024 cards", ".", "./inventory", "Change", nil, []row{
			{"reading and publishing a change to one card, at 1, 32 and 1024 cards", "flat, ≤ ×1.5", func(r results) string {
				at := func(cards string) float64 { return r.at("Change/cards="+cards+" median-ns/change", 0.5) / 1e3 }
				return fmt.Sprintf("%.0f µs / %.0f µs / %.0f µs (×%.2f)", at("1"), at("32"), at("1024"), at("1024")/at("1"))
			}},
		}},
		{"uevent parser", ".", "./watcher", "Judge/irrelevant", nil, []row{
			{"filtering and parsing a uevent that doesn't concern any card", "0 allocs/op", format("%.1f ns/op %.0f B/op %.0f allocs/op", "Judge/irrelevant ns/op", "Judge/irrelevant B/op", "Judge/irrelevant allocs/op")},
		}},
		// Run this five times, because the result is smaller than the noise in a single run.
		{"cost of the log", ".", "./cmd/internal/deviceplugin", "LogOverhead", []string{"-count=5"}, []row{
			{"extra time from a change to the list because of logging (median and range of 5 comparisons)", "< 5 %", func(r results) string {
				at := func(share float64) float64 { return 100 * (r.at("LogOverhead logged/silent", share) - 1) }
				return fmt.Sprintf("median %+.1f %%, from %+.1f to %+.1f %%", at(0.5), at(0), at(1))
			}},
		}},
		// The operator's webhook and its client run in the same process.
		{"admission, 20 s", "operator", "./admission", "Rate", nil, []row{
			{"`accelerator-operator`, response to a new pod: p50 and p99 at 200 pods per second, 20 and 1000 mappings", "p99 ≤ 10 ms", format("%.3f / %.3f ms and %.3f / %.3f ms",
				"Rate/mappings=20 p50-ms", "Rate/mappings=20 p99-ms", "Rate/mappings=1000 p50-ms", "Rate/mappings=1000 p99-ms")},
		}},
	}
}

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bench DIRECTORY [REGEXP], where REGEXP selects measurements by name")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], strings.Join(os.Args[2:], "")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, pattern string) error {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	table := "| what | measured | aim |\n|---|---|---|\n"
	for _, g := range groups(dir) {
		if !wanted.MatchString(g.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s ...\n", g.name)
		r, err := g.measure(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for _, row := range g.rows {
			table += fmt.Sprintf("| %s | %s | %s |\n", row.what, row.measured(r), row.aim)
		}
		if *r.err != nil {
			return fmt.Errorf("%s: %w", g.name, *r.err)
		}
	}
	fmt.Print(table)
	return nil
}

// results contains the benchmarks' values, one per run, keyed by "NAME UNIT".
type results struct {
	values map[string][]float64
	err    *error // the first error
}

var line = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// measure runs the group's benchmarks.
func (g group) measure(ctx context.Context, dir string) (results, error) {
	r := results{map[string][]float64{}, new(error)}
	if g.pkg == "" {
		return r, nil
	}
	args := append([]string{"-C", g.module, "test", "-run=^$", "-bench=" + g.bench, "-benchmem"}, append(g.flags, g.pkg)...)
	if g.pkg == external {
		args = append(args, "-dir="+dir)
	}
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	for _, found := range line.FindAllStringSubmatch(string(out), -1) {
		fields := strings.Fields(found[2])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return r, fmt.Errorf("%s: %w", found[0], err)
			}
			key := found[1] + " " + fields[i+1]
			r.values[key] = append(r.values[key], value)
		}
	}
	return r, nil
}

// at returns a quantile of a benchmark's values: the median if share is 0.5, for example.
func (r results) at(key string, share float64) float64 {
	values := slices.Sorted(slices.Values(r.values[key]))
	if len(values) == 0 {
		r.fail(fmt.Errorf("found no result %s, want one", key))
		return 0
	}
	return values[int(share*float64(len(values)-1))]
}

func (r results) fail(err error) {
	if *r.err == nil {
		*r.err = err
	}
}
