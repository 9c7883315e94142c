package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Log is a log of one of the plugin's containers.
type Log struct {
	Namespace, Pod string
	Previous       bool // whether the log is from before the container's last restart
}

// Logs returns the logs of the plugin's pods on a node, oldest pod first. Each pod that still exists has up to two
// logs: the one from before the container's last restart, if any, and the current one.
func (f *Fleet) Logs(ctx context.Context, node string) ([]Log, error) {
	pods, err := f.list(ctx, []string{node})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	logs := LogsOf(pods...)
	if len(logs) == 0 {
		return nil, fmt.Errorf("%s: %w", node, errNoPod)
	}
	return logs, nil
}

// LogsOf returns the pods' logs.
func LogsOf(pods ...corev1.Pod) (logs []Log) {
	for _, p := range pods {
		if slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container && c.RestartCount > 0 }) {
			logs = append(logs, Log{p.Namespace, p.Name, true})
		}
		logs = append(logs, Log{p.Namespace, p.Name, false})
	}
	return logs
}

// Open opens a log.
func (f *Fleet) Open(ctx context.Context, l Log) (io.ReadCloser, error) { return f.open(ctx, l, nil) }

// Tail is like Open, but reads only the given number of lines from the end of the log.
func (f *Fleet) Tail(ctx context.Context, l Log, lines int64) (io.ReadCloser, error) {
	return f.open(ctx, l, &lines)
}

func (f *Fleet) open(ctx context.Context, l Log, lines *int64) (io.ReadCloser, error) {
	log, err := f.client.Pods(l.Namespace).GetLogs(l.Pod, &corev1.PodLogOptions{Container: container, Previous: l.Previous, TailLines: lines}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("log of %s/%s: %w", l.Namespace, l.Pod, refusal(err))
	}
	return log, nil
}
