package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// versions matches a semantic version.
var versions = regexp.MustCompile(`^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// registries matches a registry, optionally with a port and a path.
var registries = regexp.MustCompile(`^[A-Za-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// Check returns an error if the version can't be built from the tree. The tree must be a commit without local changes,
// so that others can build the same release, and the commit must not have another version's tag.
func (r Release) Check() error {
	if !versions.MatchString(r.Version) {
		return fmt.Errorf("VERSION: found %q, want a version such as 0.3.0, without v", r.Version)
	}
	if r.Registry != "" && !registries.MatchString(r.Registry) {
		return fmt.Errorf("REGISTRY: found %q, want a registry and a path, such as registry.example.com/fpga", r.Registry)
	}
	if r.URL != "" && !strings.HasPrefix(r.URL, "https://") {
		return fmt.Errorf("URL: found %q, want an https address", r.URL)
	}
	if experiments, err := r.run("go", "env", "GOEXPERIMENT"); err != nil {
		return err
	} else if found := strings.TrimSpace(experiments); found != "" {
		return fmt.Errorf("GOEXPERIMENT: found %q, want none, because it changes the programs", found)
	}
	changed, err := r.run("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if first, _, ok := strings.Cut(changed, "\n"); ok {
		return fmt.Errorf("work tree: found %d changed or untracked files, such as %q, want none: a release is built from a commit",
			strings.Count(changed, "\n"), strings.TrimSpace(first[2:]))
	}
	tree, err := r.run("tools/version.sh")
	if err != nil {
		return err
	}
	if tree = strings.TrimSpace(tree); tree != r.Version && !strings.Contains(tree, "+") {
		return fmt.Errorf("VERSION: found %s, want %s: HEAD has the tag of that release", r.Version, tree)
	}
	if _, err := r.changes(); err != nil {
		return err
	}
	if tree != r.Version {
		fmt.Printf("HEAD does not have the tag v%s yet; set it before you publish\n", r.Version)
	}
	return nil
}

// run runs a command in the tree and returns its output.
func (r Release) run(name string, args ...string) (string, error) {
	tree, err := filepath.Abs(r.Tree)
	if err != nil {
		return "", err
	}
	if strings.Contains(name, "/") {
		name = filepath.Join(tree, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = tree, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return string(out), nil
}
