package main

import (
	"debug/buildinfo"
	"path"

	"b-com.com/accelerator-device-plugin/tools/archive"
)

// File and Files are the files in the image and in the other archives.
type (
	File  = archive.File
	Files = archive.Files
)

// project is this project's name.
const project = "accelerator-device-plugin"

// Binary is a program in the image.
type Binary struct {
	Name string
	Data []byte
	Info *buildinfo.BuildInfo
}

// SourceArchive is the path of the binaries' source code in the image.
const SourceArchive = "/usr/src/" + project + ".tar.gz"

// Rootfs returns the image's files: the binaries, their source code unless it is nil, and the licences. The licences
// are below /licenses because image certifications look for them there.
func Rootfs(binaries []Binary, source []byte, licences map[string][]byte) Files {
	files := make(Files)
	if source != nil {
		files[SourceArchive[1:]] = File{Mode: 0o644, Data: source}
	}
	for _, b := range binaries {
		files[path.Join("usr/bin", b.Name)] = File{Mode: 0o755, Data: b.Data}
	}
	for where, text := range licences {
		files[path.Join("licenses", where)] = File{Mode: 0o644, Data: text}
	}
	return files
}
