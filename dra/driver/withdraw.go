package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// withdrawAgain is how long Withdraw waits before it lists the slices again.
	withdrawAgain = 100 * time.Millisecond
	// lateWrite is how long a write can still take effect after its request was canceled.
	lateWrite = time.Second
)

// Withdraw deletes this driver's slices on a node, and returns nil once the API server doesn't have any. It retries
// after errors until ctx is done. upToDate is the result of [Driver.UpToDate], or true if no Driver has run.
func Withdraw(ctx context.Context, client kubernetes.Interface, node string, upToDate bool) error {
	began := time.Now()
	for {
		left, err := deleteSlices(ctx, client, node)
		if err == nil && left == 0 && (upToDate || time.Since(began) >= lateWrite) {
			return nil
		}
		switch {
		case err == nil && left == 0:
			err = errors.New("ResourceSlices: none found, but a cancelled write may still take effect")
		case err == nil:
			err = fmt.Errorf("ResourceSlices: found %d, want none", left)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(withdrawAgain):
		}
	}
}

// deleteSlices deletes the slices that the API server lists, and returns how many there were.
func deleteSlices(ctx context.Context, client kubernetes.Interface, node string) (int, error) {
	all, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: selectorOf(node)})
	if err != nil {
		return 0, err
	}
	for _, slice := range all.Items {
		if err := client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	return len(all.Items), nil
}

// UpToDate reports whether the API server has the latest slices. If it does, no write was canceled when Run returned.
func (d *Driver) UpToDate() bool {
	s, _ := d.state.Load()
	return s.wanted == nil || s.current()
}
