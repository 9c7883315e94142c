package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// hook measures the time of a hook from exec to exit, on a node with 32 cards, for a container
// whose two cards have their AFUs already. The hook's log is a file on disk.
func hook(ctx context.Context, binary string) (_ []row, err error) {
	tool, err := filepath.Abs(filepath.Join(filepath.Dir(binary), "accelerator-fpga")) // absolute, since the hook runs in another directory
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(tool)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "accel-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	node, err := simnode.New(dir)
	if err != nil {
		return nil, err
	}
	for i := range ports {
		if err := node.Plug(simnode.Card{Address: address(i), Ports: 1, AFUID: afu, InterfaceID: region, NUMANode: -1}); err != nil {
			return nil, err
		}
	}
	var entries []string
	for _, id := range []string{id(ports - 2), id(ports - 1)} {
		entries = append(entries, fmt.Sprintf(`{"path": %q, "args": ["accelerator-fpga", "hook", "--device", %q]}`, tool, id))
	}
	config := fmt.Sprintf(`{"process": {"env": ["FPGA_REGION_1=%s", "FPGA_AFU_1=%s", "FPGA_REGION_2=%[1]s", "FPGA_AFU_2=%[2]s"]}, "hooks": {"createRuntime": [%[3]s]}}`,
		region, afu, strings.Join(entries, ", "))
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	var took []time.Duration
	for range 500 {
		run := exec.CommandContext(ctx, tool, "hook", "--device", id(ports-1), "--sysfs-root", node.Sys, "--dev-root", node.Dev,
			"--store", filepath.Join(dir, "none"), "--lock-dir", filepath.Join(dir, "none"), "--log-file", filepath.Join(dir, "hook.log"))
		run.Env, run.Dir, run.Stdin = []string{}, dir, strings.NewReader(fmt.Sprintf(`{"id": "bench", "bundle": %q}`, dir))
		begin := time.Now()
		out, err := run.CombinedOutput()
		if took = append(took, time.Since(begin)); err != nil {
			return nil, fmt.Errorf("%s hook: %w: %s", tool, err, out)
		}
	}
	slices.Sort(took)
	at := func(share float64) string { return milli(took[int(share*float64(len(took)-1))]) }
	return []row{
		{"binary accelerator-fpga, static", fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), "≤ 8 MB"},
		{"hook at a container's start, the AFU loaded already, 32 cards", fmt.Sprintf("median %s, p99 %s, worst of 500 %s", at(0.5), at(0.99), at(1)), "median ≤ 30 ms"},
	}, nil
}
