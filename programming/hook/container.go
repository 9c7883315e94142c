package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/programming"
)

// Size limits for stdin and config.json, in bytes.
const (
	maxState  = 1 << 20
	maxConfig = 16 << 20
)

// state is the part of the OCI state that the hook needs.
type state struct {
	ID     string `json:"id"`
	Bundle string `json:"bundle"`
}

func readState(r io.Reader) (state, error) {
	var s state
	if err := decode(r, maxState, &s); err != nil {
		return state{}, err
	}
	if !filepath.IsAbs(s.Bundle) {
		return state{}, fmt.Errorf("bundle: found %s, want the absolute path of a directory", sysfs.Quote(s.Bundle))
	}
	return s, nil
}

// config is the part of config.json that the hook needs. Missing parts are nil.
type config struct {
	Process *struct {
		Env []string `json:"env"`
	} `json:"process"`
	Linux *struct {
		Devices []struct {
			Path string `json:"path"`
			Type string `json:"type"`
		} `json:"devices"`
	} `json:"linux"`
	Hooks struct {
		CreateRuntime []entry `json:"createRuntime"`
	} `json:"hooks"`
}

// entry is one of the hooks in config.json.
type entry struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // starting with the program's name
}

// readConfig reads a config.json. It doesn't follow links, and doesn't block on a FIFO.
func readConfig(path string) (config, error) {
	var c config
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return c, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return c, err
	}
	if !info.Mode().IsRegular() {
		return c, fmt.Errorf("found a file of mode %s, want a regular file", info.Mode())
	}
	err = decode(file, maxConfig, &c)
	return c, err
}

// decode decodes r, which must consist of a single JSON object. It ignores unknown fields.
func decode(r io.Reader, limit int64, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(data)) > limit {
		return fmt.Errorf("found more than %d bytes, want at most %[1]d", limit)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("not the JSON of the OCI runtime specification: %w", err)
	}
	return nil
}

// Environment variable prefixes.
const (
	regionPrefix = "FPGA_REGION_"
	afuPrefix    = "FPGA_AFU_"
)

// pair is a container's request for an AFU on a card that has a given interface.
type pair struct {
	name        string // for messages
	interfaceID string // 32 lower-case hex digits
	afu         string // 8 to 40 lower-case hex digits: an AFU's id or an AOCX's hash
}

// pairs returns the pairs of variables FPGA_REGION_n and FPGA_AFU_n in the container's environment, sorted by n.
func (c config) pairs() ([]pair, error) {
	if c.Process == nil || c.Process.Env == nil {
		return nil, errors.New("process.env: found none, want the environment of the container")
	}
	regions, afus := map[string]string{}, map[string]string{}
	for _, variable := range c.Process.Env {
		// If a variable occurs twice, the last value counts, because that is the one runc passes to the process
		// (prepareEnv, libcontainer/env.go).
		name, value, _ := strings.Cut(variable, "=")
		for prefix, values := range map[string]map[string]string{regionPrefix: regions, afuPrefix: afus} {
			number, ok := numbered(name, prefix)
			if ok && len(number) > 40 {
				return nil, fmt.Errorf("%sn: found an n of %d digits, want at most 40", prefix, len(number))
			}
			if ok {
				values[number] = value
			}
		}
	}
	var pairs []pair
	for _, number := range slices.SortedFunc(maps.Keys(regions), compareNumbers) {
		p := pair{name: regionPrefix + number + ", " + afuPrefix + number}
		afu, ok := afus[number]
		if !ok {
			return nil, fmt.Errorf("%s%s is set without %s%[2]s: set both in the env of the container", regionPrefix, number, afuPrefix)
		}
		delete(afus, number)
		var err error
		if p.interfaceID, err = programming.ParseID(regions[number]); err == nil {
			err = notAllOnes(p.interfaceID)
		}
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", regionPrefix, number, err)
		}
		if p.afu, err = parseAFU(afu); err != nil {
			return nil, fmt.Errorf("%s%s: %w", afuPrefix, number, err)
		}
		pairs = append(pairs, p)
	}
	if len(afus) > 0 {
		number := slices.MinFunc(slices.Collect(maps.Keys(afus)), compareNumbers)
		return nil, fmt.Errorf("%s%s is set without %s%[2]s: set both in the env of the container", afuPrefix, number, regionPrefix)
	}
	if len(pairs) == 0 {
		return nil, errors.New("the container has no FPGA_REGION_n and FPGA_AFU_n: set such a pair in its env for each FPGA card, to the ids of an interface and an AFU")
	}
	return pairs, nil
}

// numbered returns the decimal number that follows prefix in name. ok is false for other names, which the hook ignores.
func numbered(name, prefix string) (number string, ok bool) {
	number, ok = strings.CutPrefix(name, prefix)
	return number, ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// compareNumbers compares decimal numbers of any length. It puts 1 before 01, because FPGA_AFU_1 and FPGA_AFU_01 are
// different variables.
func compareNumbers(a, b string) int {
	x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), cmp.Compare(len(a), len(b)))
}

// parseAFU parses an AFU's id or an AOCX's hash.
func parseAFU(s string) (string, error) {
	id := strings.ToLower(strings.ReplaceAll(s, "-", ""))
	if len(id) < 8 || len(id) > 40 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", fmt.Errorf("found %s, want the 32 hex digits of an AFU, or the 8 to 40 of an AOCX's hash", sysfs.Quote(s))
	}
	return id, notAllOnes(id)
}

// notAllOnes rejects an ID that consists only of f digits. Such IDs come from cards that don't respond.
func notAllOnes(id string) error {
	if sysfs.AllOnes(id) {
		return fmt.Errorf("found %q, want an id that is not all f", id)
	}
	return nil
}

// ports returns the paths of the dfl and opae ports in linux.devices. It ignores block devices, because pods can choose
// their paths (volumeDevices).
func (c config) ports() ([]string, error) {
	if c.Linux == nil || c.Linux.Devices == nil {
		return nil, errors.New("linux.devices: found none, want the devices of the container")
	}
	var paths []string
	for _, d := range c.Linux.Devices {
		for _, prefix := range []string{"/dev/dfl-port.", "/dev/intel-fpga-port."} {
			if _, ok := numbered(d.Path, prefix); ok && (d.Type == "" || d.Type == "c") {
				paths = append(paths, d.Path)
			}
		}
	}
	if len(paths) == 0 {
		return nil, errors.New("the container has no FPGA port: request a card in its resources for each FPGA_REGION_n")
	}
	return paths, nil
}
