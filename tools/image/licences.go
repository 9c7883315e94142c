package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// licenceFile matches the names of files that contain a licence, or a notice that a licence requires to be passed on.
var licenceFile = regexp.MustCompile(`^(?i)(LICEN[CS]E|COPYING|NOTICE|PATENTS|AUTHORS)([-._].*)?$`)

// Licences returns a binary's licences by path, such as go.uber.org/zap@v1.28.0/LICENSE. They include the licences of
// this project (tree is its directory), of Go, and of every linked module. If a linked module doesn't have a licence,
// Licences returns an error.
func Licences(tree string, info *buildinfo.BuildInfo) (map[string][]byte, error) {
	module := filepath.Join(tree, moduleBelow(info))
	dirs, err := moduleDirs(module, info)
	if err != nil {
		return nil, err
	}
	root, err := command(module, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs[project] = tree
	dirs["go@"+strings.TrimPrefix(info.GoVersion, "go")] = strings.TrimSpace(string(root))
	all := make(map[string][]byte)
	for where, dir := range dirs {
		found, err := licencesIn(dir)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: found no licence in %s", where, dir)
		}
		for file, text := range found {
			all[path.Join(where, file)] = text
		}
	}
	return all, nil
}

// licencesIn returns a directory's licence files, by name.
func licencesIn(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]byte)
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		found[e.Name()] = text
	}
	return found, nil
}

// copyleft returns the path of a licence that requires the binary's source code to be passed on, or "" if there is
// none.
func copyleft(licences map[string][]byte) string {
	for _, where := range slices.Sorted(maps.Keys(licences)) {
		// gnu matches the headings of all versions of the GPL, LGPL and AGPL.
		if gnu.Match(licences[where]) {
			return where
		}
	}
	return ""
}

var gnu = regexp.MustCompile(`GNU (LESSER |LIBRARY |AFFERO )?GENERAL PUBLIC LICENSE`)

// moduleBelow returns the directory of the module that a binary was built from, relative to the project's main module:
// "." or a name such as dra.
func moduleBelow(info *buildinfo.BuildInfo) string {
	return path.Join(".", strings.TrimPrefix(info.Main.Path, "b-com.com/"+project))
}

// own reports whether a linked module belongs to this project. If it does, a replace directive contains its directory.
func own(m *debug.Module) bool { return m.Replace != nil && strings.HasPrefix(m.Replace.Path, "../") }

// moduleDirs returns the directories of the modules linked into a binary, by path@version, except for this project's
// modules.
func moduleDirs(module string, info *buildinfo.BuildInfo) (map[string]string, error) {
	args := []string{"list", "-m", "-json"}
	var want []string
	for _, m := range info.Deps {
		if !own(m) {
			args, want = append(args, m.Path), append(want, m.Path+"@"+m.Version)
		}
	}
	dirs := make(map[string]string)
	if len(want) == 0 {
		return dirs, nil
	}
	out, err := command(module, "go", args...)
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		key := m.Path + "@" + m.Version
		if !slices.Contains(want, key) {
			return nil, fmt.Errorf("%s: found in go.mod, want the version that the binary was built with", key)
		}
		if m.Dir == "" {
			return nil, fmt.Errorf("%s: module is not downloaded: run `go mod download`", key)
		}
		dirs[key] = m.Dir
	}
	return dirs, nil
}
