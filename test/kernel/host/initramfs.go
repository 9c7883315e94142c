package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeInitramfs packs the guest's files into a cpio archive: /init, /daemon, the programs in /bin, /modules/*.ko and
// /stories/*.txt.
func writeInitramfs(path string, o options) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := archive{w: bufio.NewWriterSize(f, 1<<20)}
	a.file("init", o.init, 0o755)
	a.file("daemon", o.daemon, 0o755)
	a.entry("bin", directory|0o755, nil)
	for _, program := range o.programs {
		a.file("bin/"+filepath.Base(program), program, 0o755)
	}
	a.files("modules", filepath.Join(o.modules, "*.ko"))
	a.files("stories", filepath.Join(o.stories, "*.txt"))
	return a.end()
}

// archive writes the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel): a header
// made of hexadecimal numbers, the name and the content, each padded to a multiple of four bytes.
type archive struct {
	w     *bufio.Writer
	inode int
	err   error // the first error
}

const (
	directory = 0o040000
	regular   = 0o100000
)

func (a *archive) files(dir, pattern string) {
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: found no file, want at least one", pattern)
	}
	a.keep(err)
	a.entry(dir, directory|0o755, nil)
	for _, path := range paths {
		a.file(dir+"/"+filepath.Base(path), path, 0o644)
	}
}

func (a *archive) file(name, path string, mode int) {
	content, err := os.ReadFile(path)
	a.keep(err)
	a.entry(name, regular|mode, content)
}

func (a *archive) entry(name string, mode int, content []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	_, err := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	a.keep(err)
	_, err = io.WriteString(a.w, name+"\x00"+padding(110+len(name)+1))
	a.keep(err)
	_, err = a.w.Write(content)
	a.keep(err)
	_, err = a.w.WriteString(padding(len(content)))
	a.keep(err)
}

func padding(n int) string { return "\x00\x00\x00"[:(4-n%4)%4] }

func (a *archive) end() error {
	a.entry("TRAILER!!!", 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

func (a *archive) keep(err error) {
	if a.err == nil {
		a.err = err
	}
}
