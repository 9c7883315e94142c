package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/dra/driver"
	"b-com.com/accelerator-device-plugin/test/bubble"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// Withdraw deletes all slices, tries again after errors, waits for late writes, and ends with its context.
func TestWithdraw(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 0)
	for _, tc := range []struct {
		name     string
		slices   int
		outdated bool
		react    func(client *fake.Clientset, elapsed func() time.Duration)
		want     string // error
		took     time.Duration
	}{
		{name: "none"},
		{name: "three", slices: 3, took: 100 * time.Millisecond},
		{name: "no list for a while", slices: 1, took: 500 * time.Millisecond, react: func(client *fake.Clientset, elapsed func() time.Duration) {
			client.PrependReactor("list", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
				return elapsed() < 400*time.Millisecond, nil, busy
			})
		}},
		{name: "deleted by another client", slices: 2, took: 100 * time.Millisecond, react: func(client *fake.Clientset, _ func() time.Duration) {
			client.PrependReactor("delete", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
				name := action.(clienttesting.DeleteAction).GetName()
				_ = client.Tracker().Delete(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), "", name)
				return false, nil, nil
			})
		}},
		{name: "refused", slices: 1, took: 5 * time.Second, want: "too late: busy", react: func(client *fake.Clientset, _ func() time.Duration) {
			client.PrependReactor("delete", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, busy })
		}},
		{name: "no effect", slices: 1, took: 5 * time.Second, want: "too late: ResourceSlices: found 1, want none", react: func(client *fake.Clientset, _ func() time.Duration) {
			client.PrependReactor("delete", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
		}},
		{name: "outdated", slices: 1, outdated: true, took: time.Second},
		{name: "a late write", slices: 1, outdated: true, took: time.Second, react: func(client *fake.Clientset, elapsed func() time.Duration) {
			late := false
			client.PrependReactor("list", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
				if elapsed() >= 300*time.Millisecond && !late {
					late = true
					_ = client.Tracker().Add(stored("late"))
				}
				return false, nil, nil
			})
		}},
	} {
		bubble.Run(t, tc.name, func(t *testing.T) {
			var objects []runtime.Object
			for i := range tc.slices {
				objects = append(objects, stored(fmt.Sprint(i)))
			}
			client := fake.NewClientset(objects...)
			began := time.Now()
			if tc.react != nil {
				tc.react(client, func() time.Duration { return time.Since(began) })
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("too late"))
			defer cancel()
			err := driver.Withdraw(ctx, client, node, !tc.outdated)
			if text := fmt.Sprint(err); (tc.want == "") != (err == nil) || !strings.HasPrefix(text, tc.want) && err != nil {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			compare.Equal(t, "took", tc.took, time.Since(began))
			left, _ := client.Tracker().List(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), "")
			if n := len(left.(*resourceapi.ResourceSliceList).Items); tc.want == "" && n > 0 {
				t.Errorf("found %d slices, want none", n)
			}
			selectors := map[string]bool{}
			for _, action := range client.Actions() {
				if list, ok := action.(clienttesting.ListAction); ok {
					selectors[list.GetListRestrictions().Fields.String()] = true
				}
			}
			compare.Values(t, "selectors", map[string]bool{"spec.driver=accelerator.b-com.com,spec.nodeName=worker-3": true}, selectors)
		})
	}
}

// A driver is up to date if the API server has its wanted slices.
func TestUpToDate(t *testing.T) {
	r := newRig(t, nil, "", claims{})
	a, b := resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"nothing published", func() {}, true},
		{"wanted", func() { r.Want(resourceslice.Slice{Devices: []resourceapi.Device{a}}) }, false},
		{"stored", func() { r.Stored(stored("00000-x-1", a)) }, true},
		{"changed", func() { r.Want(resourceslice.Slice{Devices: []resourceapi.Device{a, b}}) }, false},
	} {
		step.do()
		compare.Equal(t, step.what+": UpToDate()", step.want, r.UpToDate())
	}
}
