package claims

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/api/metadata/install"
	metadatav1alpha1 "k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// metadataDir is the subdirectory of the driver's directory for metadata files.
	metadataDir = "metadata"
	// maxMetadata is the maximum size of a metadata file, in bytes. It is enough for the 32 devices with 32 attributes
	// each that the API allows.
	maxMetadata = 2 << 20
)

// metadataVersions lists the API versions in a metadata file, newest first. Consumers use the first one they know.
// Programs built for Kubernetes 1.36 know only v1alpha1.
var metadataVersions = []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion, metadatav1alpha1.SchemeGroupVersion}

// metadataEncoders holds an encoder for each version in metadataVersions.
var metadataEncoders = func() (all []runtime.Encoder) {
	codecs := serializer.NewCodecFactory(install.NewScheme())
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	for _, version := range metadataVersions {
		all = append(all, codecs.EncoderForVersion(info.PrettySerializer, version))
	}
	return all
}()

// podClaimOf returns the name that the pod uses for a claim that was created from a template, or "" for other claims.
// It validates the name, because the name becomes part of a path in the container, and anyone who can create claims can
// write the annotation that it comes from.
func podClaimOf(claim *resourceapi.ResourceClaim) string {
	name := claim.Annotations[resourceapi.PodResourceClaimAnnotation]
	if len(validation.IsDNS1123Label(name)) > 0 {
		return ""
	}
	return name
}

// requests returns the names of a record's requests, without subrequests, in the order of the record's devices.
func (r record) requests() (names []string) {
	for _, d := range r.Devices {
		if name := resourceclaim.BaseRequestRef(d.Request); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// metadataFile returns the name of a request's metadata file. It is unambiguous, because neither UIDs nor request names
// contain a dot.
func (r record) metadataFile(request string) string { return r.UID + "." + request + ".json" }

// describe creates a prepared claim's metadata files. apply keeps them up to date.
func (c *Claims) describe(dir *os.Root, r request, s inventory.Snapshot) error {
	if c.cfg.Attributes == nil {
		return nil
	}
	if err := dir.Mkdir(metadataDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return privatedir.PathError(filepath.Join(dir.Name(), metadataDir), err)
	}
	files, err := privatedir.OpenSub(dir, metadataDir)
	if err != nil {
		return err
	}
	defer files.Close()
	recorded := c.known[indexOf(c.known, r.UID)]
	for _, name := range recorded.requests() {
		was, err := recorded.readMetadata(files, name)
		if err != nil {
			return err
		}
		if was.PodClaimName = nil; r.podClaim != "" {
			was.PodClaimName = &r.podClaim
		}
		if err := c.rewrite(files, recorded, name, was, s); err != nil {
			return err
		}
	}
	return nil
}

// renew brings the claims' existing metadata files up to date, and stores their mounts in c.files. If it returns an
// error, some files may be outdated. A request whose file is missing doesn't get a mount, because only Prepare knows
// the path in the container.
func (c *Claims) renew(dir *os.Root, all []record, s inventory.Snapshot) error {
	if c.cfg.Attributes == nil {
		c.files = nil
		return nil
	}
	files, err := privatedir.OpenSub(dir, metadataDir)
	if errors.Is(err, fs.ErrNotExist) {
		c.files = nil
		return nil
	}
	if err != nil {
		return err
	}
	defer files.Close()
	mounts := map[string]cdi.File{}
	for _, r := range all {
		if r.Waiting {
			continue
		}
		for _, name := range r.requests() {
			file := r.metadataFile(name)
			was, failed := r.readMetadata(files, name)
			if failed != nil {
				err = errors.Join(err, failed)
				if mount, ok := c.files[file]; ok {
					mounts[file] = mount
				}
			}
			if was.text == nil {
				continue
			}
			err = errors.Join(err, c.rewrite(files, r, name, was, s))
			path := metadata.ResourceClaimFilePath(draname.Driver, r.Name, name)
			if pod := was.podClaim(); pod != "" {
				path = metadata.ResourceClaimTemplateFilePath(draname.Driver, pod, name)
			}
			mounts[file] = cdi.File{HostPath: filepath.Join(c.cfg.Dir, metadataDir, file), Path: path}
		}
	}
	c.files = mounts
	return err
}

// rewrite rewrites a request's metadata file if its content has changed.
func (c *Claims) rewrite(files *os.Root, r record, request string, was described, s inventory.Snapshot) error {
	next := c.metadataOf(r, request, was, s)
	if bytes.Equal(next.encode(), was.text) {
		return nil
	}
	next.Generation++
	return next.write(files, r.metadataFile(request))
}

// sweep removes metadata files that no CDI device mounts, such as those left behind by a driver that was killed.
func (c *Claims) sweep(dir *os.Root) error {
	if len(c.files) == 0 {
		return dir.RemoveAll(metadataDir)
	}
	files, err := privatedir.OpenSub(dir, metadataDir)
	if err != nil {
		return err
	}
	defer files.Close()
	entries, err := fs.ReadDir(files.FS(), ".")
	for _, entry := range entries {
		if _, mounted := c.files[entry.Name()]; !mounted {
			err = errors.Join(err, files.RemoveAll(entry.Name()))
		}
	}
	return err
}

// described is a metadata file's content.
type described struct {
	metadata.DeviceMetadata
	text []byte // nil if there is no valid file
}

// podClaim returns the name that the pod uses for the claim, or "" if the claim wasn't created from a template.
func (m described) podClaim() string {
	if m.PodClaimName == nil {
		return ""
	}
	return *m.PodClaimName
}

// readMetadata reads a request's metadata file. If the file doesn't exist or isn't valid, the result is empty.
func (r record) readMetadata(files *os.Root, request string) (described, error) {
	text, err := privatedir.ReadFile(files, r.metadataFile(request), maxMetadata)
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.ENOENT {
		return described{}, err
	}
	was := described{text: text}
	if err == nil {
		err = devicemetadata.DecodeMetadataFromStream(json.NewDecoder(bytes.NewReader(text)), &was.DeviceMetadata)
	}
	if err != nil || was.podClaim() != "" && len(validation.IsDNS1123Label(was.podClaim())) > 0 {
		return described{}, nil
	}
	return was, nil
}

// metadataOf returns a request's current metadata. A device that containers currently can't get keeps its old
// attributes. If a device is programmed for the claim, its AFU is the one it will have once the container starts.
func (c *Claims) metadataOf(r record, request string, was described, s inventory.Snapshot) described {
	next := described{DeviceMetadata: metadata.DeviceMetadata{
		ObjectMeta:   metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: types.UID(r.UID), Generation: was.Generation},
		PodClaimName: was.PodClaimName, Requests: []metadata.DeviceMetadataRequest{{}},
	}}
	only := &next.Requests[0]
	for _, d := range r.Devices {
		if resourceclaim.BaseRequestRef(d.Request) != request {
			continue
		}
		only.Name = d.Request
		device := metadata.Device{Driver: draname.Driver, Pool: c.cfg.Node, Name: d.Name}
		if now := s.Device(d.id); usable(now) == nil {
			if hook, err := c.hook(d, now); hook != nil && err == nil {
				programmed := *now
				programmed.AFUID = d.Wanted
				now = &programmed
			}
			device.Attributes = c.cfg.Attributes(now)
		} else if len(was.Requests) > 0 {
			if i := slices.IndexFunc(was.Requests[0].Devices, func(o metadata.Device) bool { return o.Name == d.Name }); i >= 0 {
				device.Attributes = maps.Clone(was.Requests[0].Devices[i].Attributes)
			}
		}
		only.Devices = append(only.Devices, device)
	}
	return next
}

// encode returns the metadata file's content: one object per version in metadataVersions. Encoding can't fail, because
// the types are fixed. If it did, consumers would find an empty file.
func (m described) encode() []byte {
	var text bytes.Buffer
	for _, encoder := range metadataEncoders {
		_ = encoder.Encode(&m.DeviceMetadata, &text)
		text.WriteByte('\n')
	}
	return text.Bytes()
}

// write replaces the named metadata file. A running container keeps the file that it was started with, because the file
// is bind-mounted. write doesn't sync the file to disk: this could take seconds while other claims wait, and after a
// power loss, all claims are prepared again anyway.
func (m described) write(files *os.Root, name string) error {
	next := name + ".new"
	_ = files.Remove(next) // may have been left behind by a process that was killed
	err := files.WriteFile(next, m.encode(), 0o600)
	if err == nil {
		err = files.Chmod(next, 0o644) // regardless of the umask
	}
	if err == nil {
		err = files.Rename(next, name)
	}
	if err != nil {
		_ = files.Remove(next)
		return privatedir.PathError(filepath.Join(files.Name(), name), err)
	}
	return nil
}

// mounted reports whether the spec mounts the metadata files of all of a prepared claim's requests.
func (c *Claims) mounted(uid string) bool {
	r := c.known[indexOf(c.known, uid)]
	return c.cfg.Attributes == nil || !slices.ContainsFunc(r.requests(), func(request string) bool {
		_, ok := c.files[r.metadataFile(request)]
		return !ok
	})
}

// mounts returns the metadata file to mount with r.Devices[i]: its request's file if the device is the request's first,
// otherwise none. One device per request is enough, because the same containers get all of a request's CDI devices.
func (c *Claims) mounts(r record, i int) []cdi.File {
	request := resourceclaim.BaseRequestRef(r.Devices[i].Request)
	first := slices.IndexFunc(r.Devices, func(d device) bool { return resourceclaim.BaseRequestRef(d.Request) == request })
	if file, ok := c.files[r.metadataFile(request)]; ok && first == i {
		return []cdi.File{file}
	}
	return nil
}
