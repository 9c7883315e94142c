package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// registryProgram is the program that implements pull, push and keep. It is separate because container runtimes run
// accelerator-fpga as root, so accelerator-fpga itself must never use the network.
const registryProgram = "accelerator-fpga-registry"

// newRegistry returns the pull, push or keep command, which replaces this process with registryProgram.
func newRegistry(name, arguments, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name + " " + arguments,
		Short: short,
		Long: fmt.Sprintf(`%s.

This command is run by the program %s, which must be in the same
directory as accelerator-fpga, or in PATH. "accelerator-fpga %s --help" then prints
its help.`, short, registryProgram, name),
		Example:            "  accelerator-fpga " + name + " --help",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := findRegistryProgram()
			if err == nil {
				err = syscall.Exec(path, append([]string{registryProgram, name}, args...), os.Environ())
				err = &fs.PathError{Op: "exec", Path: path, Err: err}
			}
			return asFailure(err)
		},
	}
}

// findRegistryProgram returns the path of registryProgram.
func findRegistryProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	for _, name := range []string{filepath.Join(dir, registryProgram), registryProgram} {
		if path, err := exec.LookPath(name); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, exec.ErrNotFound) {
			return path, err
		}
	}
	return "", fmt.Errorf("%s: not found in %s or in PATH; copy the program of this version there: make build-registry builds it in bin/, and the image %[1]s contains it", registryProgram, dir)
}
