package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/redact"
)

// Limits of a report.
const (
	maxPods   = 8        // pods of the plugin on the node
	lastLines = 20_000   // of each log
	maxLog    = 16 << 20 // bytes of each log
	maxReport = 64 << 20
)

func newReport(c *cluster) *cobra.Command {
	var name string
	var full bool
	cmd := &cobra.Command{
		Use:   "report NODE",
		Short: "Write a file that helps find a fault on a node",
		Long: `Write a compressed tar file for the people who help you find a fault: the devices,
settings, history and logs of the plugin on the node, the state of its pods, and what
the kubelet reports about the node. Nothing is written to the node, and no pods are
started.

The file only contains values of a known form, such as numbers and PCI addresses. It
doesn't contain any text written by people, names of pods, namespaces or users,
environment variables, or annotations. With --full, everything is included. Check the
file before you share it.

Anything that can't be read is listed in problems.txt and on stderr, and the exit code
is then 1.`,
		Example: `  kubectl accelerator report worker-3
  kubectl accelerator report worker-3 --file fault.tar.gz --full`,
		ValidArgsFunction: c.nodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("found %d arguments, want NODE, such as worker-3", len(args))
			}
			if err := checkNode(args[0]); err != nil {
				return err
			}
			f, err := c.fleet(cmd)
			if err != nil {
				return err
			}
			began := time.Now().UTC()
			b := &bundle{f: f, node: args[0], full: full, redactor: redact.New(args[0]), began: began}
			b.root = "accelerator-report-" + b.node + "-" + began.Format("20060102T150405Z")
			tell, done := line(cmd.ErrOrStderr())
			b.tell = tell
			name = cmp.Or(name, b.root+".tar.gz")
			err = b.write(cmd.Context(), name)
			done()
			if err != nil {
				return failure{err}
			}
			for _, p := range b.problems {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %s\n", program, p.part, terminal.Escape(p.err.Error()))
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), terminal.Escape(name)); err != nil {
				return failure{err}
			}
			if len(b.problems) > 0 {
				parts := "1 part"
				if n := len(b.problems); n > 1 {
					parts = fmt.Sprintf("%d parts", n)
				}
				return failure{fmt.Errorf("%s could not be read: %s has the rest", parts, name)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "file", "", "`FILE` to write, which must not exist yet (default: accelerator-report-NODE-TIME.tar.gz)")
	cmd.Flags().BoolVar(&full, "full", false, "also include names, texts, annotations and environment variables")
	return cmd
}

// bundle is a report that is being written.
type bundle struct {
	f        *fleet.Fleet
	node     string
	full     bool
	redactor *redact.Redactor
	root     string // root directory in the archive
	began    time.Time
	tell     func(string)

	tar      *tar.Writer
	err      error // the first error from writing the archive; once it is set, no more parts are read
	size     int   // total size of all parts
	problems []problem
}

type problem struct {
	part string
	err  error
}

// write writes the report to a file. If that fails, it removes the file.
func (b *bundle) write(ctx context.Context, name string) (err error) {
	pods, err := b.f.Pods(ctx, b.node)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		if _, err := b.f.Object(ctx, "/api/v1/nodes/"+b.node, nil); err != nil {
			return fmt.Errorf("%s: found no pod of the plugin on this node, and the node cannot be read: %w", b.node, err)
		}
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	compressed := gzip.NewWriter(file)
	b.tar = tar.NewWriter(compressed)
	b.parts(ctx, pods)
	for _, end := range []func() error{b.tar.Close, compressed.Close} {
		if b.err == nil { // later errors would only repeat the first
			b.err = end()
		}
	}
	b.err = errors.Join(b.err, file.Close())
	if b.err == nil && ctx.Err() != nil {
		b.err = errors.New("interrupted")
	}
	if b.err != nil {
		return errors.Join(b.err, os.Remove(name))
	}
	return nil
}

// parts adds all parts.
func (b *bundle) parts(ctx context.Context, pods []corev1.Pod) {
	about, err := json.MarshalIndent(map[string]any{"command": "kubectl accelerator report " + b.node, "version": buildVersion(), "began": b.began, "full": b.full}, "", "  ")
	b.err = err
	b.add("about.json", about)
	slices.SortFunc(pods, func(x, y corev1.Pod) int {
		return cmp.Or(y.CreationTimestamp.Compare(x.CreationTimestamp.Time), cmp.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name))
	})
	if len(pods) > maxPods {
		b.problem("pods", fmt.Errorf("found %d pods of the plugin, want at most %d: the oldest are left out", len(pods), maxPods))
		pods = pods[:maxPods]
	}
	if len(pods) == 0 {
		b.problem("pods", errors.New("found no pod of the plugin on this node"))
	}
	for i := range pods {
		b.pod(ctx, &pods[i])
	}
	b.part(ctx, "node.json", redact.Node, b.object("/api/v1/nodes/"+b.node, nil))
	if slices.ContainsFunc(pods, fleet.IsDRA) {
		b.part(ctx, "slices.json", redact.Slices, b.object("/apis/resource.k8s.io/v1/resourceslices",
			map[string]string{"fieldSelector": "spec.nodeName=" + b.node + ",spec.driver=accelerator.b-com.com", "limit": "100"}))
	}
	text := ""
	for _, p := range b.problems {
		why := p.err.Error()
		if !b.full {
			why = strings.TrimPrefix(redact.Phrases(why), redact.Removed+" ")
		}
		text += p.part + ": " + why + "\n"
	}
	if text != "" {
		b.add("problems.txt", []byte(text))
	}
}

// pod adds everything about one of the plugin's pods to the report: its manifest, state, settings and logs.
func (b *bundle) pod(ctx context.Context, pod *corev1.Pod) {
	dir := b.alias("plugin", pod.Namespace+"_"+pod.Name)
	add := func(name string, shape redact.Shape, read reader) { b.part(ctx, path.Join(dir, name), shape, read) }
	pod.ManagedFields = nil
	add("pod.json", redact.Pod, func(context.Context) ([]byte, error) { return json.Marshal(pod) })
	if t, asked := fleet.TargetOf(pod); asked {
		run := func(args ...string) reader {
			return func(ctx context.Context) ([]byte, error) {
				if t.Problem != nil {
					return nil, t.Problem
				}
				return b.f.Run(ctx, t, args...)
			}
		}
		add("state.json", redact.State, run("devices", "-o", "state"))
		add("scan.json", redact.Rows, run("devices", "--scan", "-o", "json"))
	}
	for _, v := range pod.Spec.Volumes {
		if from := v.ConfigMap; from != nil {
			read := b.object("/api/v1/namespaces/"+pod.Namespace+"/configmaps/"+from.Name, nil)
			add(b.alias("settings", v.Name)+".json", redact.ConfigMap, func(ctx context.Context) ([]byte, error) {
				text, err := read(ctx)
				if apierrors.IsNotFound(err) && from.Optional != nil && *from.Optional {
					return []byte("null\n"), nil
				}
				return text, err
			})
		}
	}
	for _, log := range fleet.LogsOf(*pod) {
		name := "log.txt"
		if log.Previous {
			name = "log-before-restart.txt"
		}
		add(name, nil, func(ctx context.Context) ([]byte, error) {
			in, err := b.f.Tail(ctx, log, lastLines)
			if err != nil {
				return nil, err
			}
			defer in.Close()
			text, err := io.ReadAll(io.LimitReader(in, maxLog+1))
			switch {
			case err == nil && len(text) > maxLog:
				err = fmt.Errorf("the log is larger than %d MiB", maxLog>>20)
			case err == nil && bytes.Count(text, []byte("\n")) > lastLines:
				err = fmt.Errorf("the log is larger than %d lines, which is not what was asked for", lastLines)
			}
			return text, err
		})
	}
}

// alias returns what stands for a name in the report: an alias or, in a full report, the name itself. The result can
// also be used as a file name.
func (b *bundle) alias(kind, name string) string {
	if b.full {
		return strings.NewReplacer("/", "_", `\`, "_").Replace(name)
	}
	return b.redactor.Alias(kind, name)
}

type reader func(context.Context) ([]byte, error)

func (b *bundle) object(path string, parameters map[string]string) reader {
	return func(ctx context.Context) ([]byte, error) { return b.f.Object(ctx, path, parameters) }
}

// part reads one part of the report and adds it: all of it in a full report, and otherwise only what shape keeps. shape
// is nil for logs, which are redacted separately.
func (b *bundle) part(ctx context.Context, name string, shape redact.Shape, read reader) {
	if ctx.Err() != nil || b.err != nil {
		return // write will return this error
	}
	b.tell("reading " + name)
	limited, cancel := context.WithTimeoutCause(ctx, b.f.Limit, fmt.Errorf("no answer within %s", b.f.Limit))
	defer cancel()
	text, err := read(limited)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited)
	}
	switch {
	case err != nil || b.full:
	case shape == nil:
		text = b.redactor.Log(text)
	default:
		text, err = b.redactor.JSON(shape, text)
	}
	if err != nil {
		b.problem(name, err)
		return
	}
	b.add(name, text)
}

func (b *bundle) problem(part string, err error) {
	b.problems = append(b.problems, problem{part, err})
}

// add adds a file to the archive.
func (b *bundle) add(name string, text []byte) {
	if b.size += len(text); b.size > maxReport {
		b.size -= len(text)
		b.problem(name, fmt.Errorf("the report is larger than %d MiB with it", maxReport>>20))
		return
	}
	header := &tar.Header{Name: path.Join(b.root, name), Mode: 0o600, Size: int64(len(text)), ModTime: b.began, Format: tar.FormatPAX}
	if b.err == nil {
		b.err = b.tar.WriteHeader(header)
	}
	if b.err == nil {
		_, b.err = b.tar.Write(text)
	}
}
