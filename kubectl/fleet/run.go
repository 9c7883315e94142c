package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// Limits on a command's output, in bytes. The state of a node with 10000 devices takes up 5 MB.
const (
	maxOutput = 8 << 20
	maxStderr = 4 << 10
)

// Failed is the error for a command that ran and failed.
type Failed struct {
	Code   int    // exit code
	Stderr string // the first 4 KiB of stderr
}

func (f *Failed) Error() string {
	text, _, _ := strings.Cut(strings.TrimSpace(f.Stderr), "\nRun '") // cut off the hint about --help
	return cmp.Or(strings.TrimPrefix(text, "accelerator-device-plugin: "), fmt.Sprintf("exit code %d without a message", f.Code))
}

// Run runs accelerator-device-plugin with the given arguments in a pod, and returns its output when the command ends or
// ctx is done. If the command fails, the error is a *[Failed].
func (f *Fleet) Run(ctx context.Context, t Target, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &limited{most: maxOutput, full: func() { cancel(errTooLarge) }}
	err := f.run(ctx, t, stdout, args...)
	if ctx.Err() != nil { // stdout may still be written to
		return nil, err
	}
	return stdout.kept.Bytes(), err
}

// run is like Run but writes the output to the given writer.
func (f *Fleet) run(ctx context.Context, t Target, stdout io.Writer, args ...string) error {
	executor, err := f.executor(t, args)
	if err != nil {
		return err
	}
	stderr := &limited{most: maxStderr, full: func() {}}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: frugal{stdout}, Stderr: frugal{stderr}})
	if ctx.Err() != nil { // the streams may still be written to
		return context.Cause(ctx)
	}
	if exit, ok := errors.AsType[utilexec.ExitError](err); ok {
		return &Failed{exit.ExitStatus(), stderr.kept.String()}
	}
	return refusal(err)
}

// executor returns an executor for a command in a pod. Like kubectl, it uses a websocket, and falls back to SPDY if a
// proxy or the API server doesn't support websockets.
func (f *Fleet) executor(t Target, args []string) (remotecommand.Executor, error) {
	url := f.client.RESTClient().Post().Resource("pods").Namespace(t.Namespace).Name(t.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: append([]string{"accelerator-device-plugin"}, args...), Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	spdy, err := remotecommand.NewSPDYExecutor(f.config, "POST", url)
	if err != nil {
		return nil, err
	}
	websocket, err := remotecommand.NewWebSocketExecutor(f.config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

var errTooLarge = fmt.Errorf("its answer has more than %d MiB, and is not that of the plugin", maxOutput>>20)

// frugal is a writer for which io.Copy uses only a small buffer, because the buffer lives as long as the command.
type frugal struct{ io.Writer }

func (f frugal) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{f.Writer}, r, make([]byte, 4<<10))
}

// limited is a writer that keeps only the beginning of the output.
type limited struct {
	kept bytes.Buffer // not embedded, because io.Copy would use its ReadFrom, which has no limit
	most int
	full func() // called when the limit is exceeded
}

// Write never returns an error, because the executor would log it.
func (l *limited) Write(p []byte) (int, error) {
	if rest := l.most - l.kept.Len(); len(p) > rest {
		l.kept.Write(p[:rest])
		l.full()
		return len(p), nil
	}
	return l.kept.Write(p)
}

// ErrRefused means that the user lacks a permission or that a policy rejected the request. An error that wraps it
// contains the verb, the resource and the namespace of the request, or else the policy's message.
var ErrRefused = errors.New("you don't have permission")

// refusers lists what, other than a missing permission, can make the API server reject a request, and how to recognize
// it in the API server's message.
var refusers = []struct{ says, who string }{
	{"violates PodSecurity ", "Pod Security admission, by the labels of the namespace"},
	{" quota: ", "a quota of the namespace"}, // exceeded quota, failed quota
	{"admission webhook ", "a policy"},
}

// refusal returns an error that wraps ErrRefused if the API server has rejected the request. Otherwise, it returns err.
// It also looks at the error's text, because that is all the API server returns for exec.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "unable to upgrade connection: ")
	forbidden := apierrors.IsForbidden(err) || strings.Contains(text, " is forbidden: ")
	if before, message, ok := strings.Cut(text, " denied request: "); ok { // start with what the user needs
		_, policy, _ := strings.Cut(before, " is forbidden: ")
		return fmt.Errorf("%w: %s (refused by a policy: %s)", ErrRefused, message, policy)
	}
	for _, r := range refusers {
		if strings.Contains(text, r.says) && (forbidden || strings.Contains(text, " denied ")) {
			return fmt.Errorf("%w: refused by %s: %s", ErrRefused, r.who, text)
		}
	}
	switch {
	case forbidden:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	case apierrors.IsUnauthorized(err), text == "Unauthorized":
		return fmt.Errorf("%w: the API server does not know you (%s)", ErrRefused, text)
	}
	return err
}
