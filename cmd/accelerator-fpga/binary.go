package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

// binaryName is the program's name on the host.
const binaryName = "accelerator-fpga"

// newInstallBinary returns the command with which the chart's init container copies this program to the host. It exists
// because the container's image contains neither a shell nor cp.
func newInstallBinary() *cobra.Command {
	return &cobra.Command{
		Use:    "install-binary DIRECTORY",
		Short:  "Install this program in a directory of the host",
		Hidden: true,
		Long: `Copy this program to DIRECTORY/accelerator-fpga. An existing program is replaced
atomically, so a crash never leaves an incomplete one behind. Processes that are running
the old program continue. The directory must belong to the effective user and must not
be writable by other users, because container runtimes run the program as root.`,
		Example: "  accelerator-fpga install-binary /opt/accelerator-fpga/bin",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("DIRECTORY: found %d, want one", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := installBinary(args[0]); err != nil {
				return asFailure(err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(args[0], binaryName))
			return asFailure(err)
		},
	}
}

// installBinary copies the running program to the file binaryName in dir.
func installBinary(dir string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	root, err := privatedir.OpenDir(dir, false)
	if err != nil {
		return err
	}
	defer root.Close()
	here, err := root.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	if err := checkExec(dir, here); err != nil {
		return err
	}
	// Don't let the rename replace a link that an administrator created on purpose.
	switch old, err := root.Lstat(binaryName); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !old.Mode().IsRegular():
		return fmt.Errorf("%s: found a file of mode %s, want a regular file or none: remove it", filepath.Join(dir, binaryName), old.Mode().Type())
	}
	if err := removeTemporary(root, here); err != nil {
		return err
	}
	temp := tempPrefix + rand.Text()
	err = copyFile(root, temp, self)
	if err == nil {
		err = root.Rename(temp, binaryName)
	}
	if err != nil {
		_ = root.Remove(temp) // if this fails, the next installation removes it
		return err
	}
	return here.Sync()
}

const tempPrefix = "." + binaryName + "."

// removeTemporary removes temporary files left behind by installations that were killed. If another installation is
// still running, it fails because its file is gone, and the kubelet restarts it.
func removeTemporary(root *os.Root, here *os.File) error {
	names, err := here.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copyFile creates an executable file with the content of from. The file is closed on return, because a file that is
// open for writing can't be executed.
func copyFile(root *os.Root, name string, from io.Reader) error {
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o755) // regardless of the umask
	}
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// checkExec returns an error if the directory's file system doesn't allow programs to be executed.
func checkExec(dir string, open *os.File) error {
	const noexec = 0x8 // ST_NOEXEC from statfs(2)
	var s syscall.Statfs_t
	if err := syscall.Fstatfs(int(open.Fd()), &s); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if s.Flags&noexec != 0 {
		return fmt.Errorf("%s: found a file system that is mounted noexec, want one without noexec", dir)
	}
	return nil
}
