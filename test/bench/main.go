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
	"time"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bench BINARY [REGEXP], where REGEXP selects measurements by name")
		os.Exit(2)
	}
	wanted, err := regexp.Compile(strings.Join(os.Args[2:], ""))
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], wanted); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is one row of the table.
type row struct{ name, measured, aim string }

func run(ctx context.Context, binary string, wanted *regexp.Regexp) error {
	var table []row
	for _, measure := range []struct {
		progress string
		do       func(context.Context, string) ([]row, error)
	}{
		{"size of the binaries", size},
		{"start to first list, 20 times", start},
		{"hook of a container whose cards are programmed already, 500 times", hook},
		{"change to list, 2000 times", latency},
		{"memory and idle CPU, two minutes", idle},
		{"memory and idle CPU with functions on vfio-pci, a minute", idleFunctions},
		{"memory under scrapes, a minute", scraped},
		{"cost of one card's change at 1, 32 and 1024 cards", scaling},
		{"uevent parser", parser},
		{"cost of the log", logCost},
		{"admission, 20 s", admission},
	} {
		if !wanted.MatchString(measure.progress) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s ...\n", measure.progress)
		rows, err := measure.do(ctx, binary)
		if err != nil {
			return fmt.Errorf("%s: %w", measure.progress, err)
		}
		table = append(table, rows...)
	}
	fmt.Println("| what | measured | aim |")
	fmt.Println("|---|---|---|")
	for _, r := range table {
		fmt.Printf("| %s | %s | %s |\n", r.name, r.measured, r.aim)
	}
	return nil
}

// size returns the sizes of the daemon and of the DRA driver in the same directory. The story dra-costs of
// make e2e and make bench-dra have the driver's other costs, since the driver needs an API server.
func size(_ context.Context, binary string) ([]row, error) {
	var rows []row
	for _, b := range []struct{ name, path, aim string }{
		{"binary, static", binary, "≤ 20 MB"},
		{"binary accelerator-dra-driver, static", filepath.Join(filepath.Dir(binary), "accelerator-dra-driver"), "≤ 60 MB"},
	} {
		info, err := os.Stat(b.path)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{b.name, fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), b.aim})
	}
	return rows, nil
}

// benchmark runs the Go benchmarks name of a package, in the module in a directory, and returns
// the first group of each match of pattern in their output.
func benchmark(ctx context.Context, module, pkg, name, pattern string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "-C", module, "test", "-run", "^$", "-bench", name, "-benchmem", pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w\n%s", name, pkg, err, out)
	}
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(out, -1) {
		found = append(found, string(m[1]))
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("go test -bench %s %s: found no line that matches %s, want at least one:\n%s", name, pkg, pattern, out)
	}
	return found, nil
}

func scaling(ctx context.Context, _ string) ([]row, error) {
	found, err := benchmark(ctx, ".", "./inventory", "Change", `BenchmarkChange/cards=\S+\s+\d+\s+(\d+) median-ns/change`)
	if err != nil {
		return nil, err
	}
	var cost [3]time.Duration
	if len(found) != len(cost) {
		return nil, fmt.Errorf("results: found %d, want %d", len(found), len(cost))
	}
	for i, f := range found {
		if cost[i], err = time.ParseDuration(f + "ns"); err != nil {
			return nil, err
		}
	}
	return []row{{
		"reading and publishing a change of one card, at 1 / 32 / 1024 cards",
		fmt.Sprintf("%s / %s / %s (×%.2f)", micro(cost[0]), micro(cost[1]), micro(cost[2]), float64(cost[2])/float64(cost[0])),
		"flat, ≤ ×1.5",
	}}, nil
}

func parser(ctx context.Context, _ string) ([]row, error) {
	found, err := benchmark(ctx, ".", "./watcher", "Judge/irrelevant", `BenchmarkJudge/irrelevant\S*\s+\d+\s+(\S+ ns/op.*allocs/op)`)
	if err != nil {
		return nil, err
	}
	return []row{{"filter and parse of an irrelevant uevent", strings.Join(strings.Fields(found[0]), " "), "0 allocs/op"}}, nil
}

// logCost measures the share of the log in the time from a hint to the kubelet's list. It runs
// its benchmark five times, since the result is smaller than the noise of one run.
func logCost(ctx context.Context, _ string) ([]row, error) {
	var added []float64 // percent
	for range 5 {
		found, err := benchmark(ctx, ".", "./cmd/accelerator-device-plugin", "LogOverhead", `BenchmarkLogOverhead\S*\s+\d+\s.*?(\S+) logged/silent`)
		if err != nil {
			return nil, err
		}
		ratio, err := strconv.ParseFloat(found[0], 64)
		if err != nil {
			return nil, err
		}
		added = append(added, 100*(ratio-1))
	}
	slices.Sort(added)
	return []row{{"time that the log adds to a change → list, median and range of 5 comparisons", fmt.Sprintf("median %+.1f %%, from %+.1f to %+.1f %%", added[2], added[0], added[4]), "< 5 %"}}, nil
}

// admission measures the operator's webhook, in one process with its client.
func admission(ctx context.Context, _ string) ([]row, error) {
	found, err := benchmark(ctx, "operator", "./admission", "Rate", `BenchmarkRate/mappings=\S+\s+\d+\s.*?(\S+ p50-ms\s+\S+) p99-ms`)
	if err != nil {
		return nil, err
	}
	if len(found) != 2 {
		return nil, fmt.Errorf("results: found %d, want 2", len(found))
	}
	few, many := strings.Fields(found[0]), strings.Fields(found[1])
	return []row{{
		"accelerator-operator, answer to a new pod: p50 / p99 at 200 pods a second, 20 and 1000 mappings",
		fmt.Sprintf("%s / %s ms and %s / %s ms", few[0], few[2], many[0], many[2]), "p99 ≤ 10 ms",
	}}, nil
}

func micro(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }

func milli(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
