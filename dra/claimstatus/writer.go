package claimstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	apply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// interval is the minimum time between passes over the claims.
	interval = 5 * time.Second
	// pace is the minimum time between requests to the API server. There is a minimum because the same client also
	// writes the slices, and a taint shouldn't have to wait for a status update.
	pace = 200 * time.Millisecond
	// requestTimeout is the time limit for a request.
	requestTimeout = 10 * time.Second
	// firstRetry is the wait after the first failed pass. It doubles with each further failure, up to maxRetry, so that
	// a driver without the necessary permissions sends few requests.
	firstRetry = time.Minute
	maxRetry   = 30 * time.Minute
	// longest is the maximum length of a condition's message, in bytes. Longer messages are cut off.
	longest = 200
)

// The type of a device's condition, and its reasons.
const (
	conditionReady  = "Ready"
	reasonHealthy   = "Healthy"
	reasonDegraded  = "Degraded"
	reasonUnhealthy = "Unhealthy"
)

// shown lists the attributes that are copied to a device's status. Even with the longest possible values, they take up
// only a third of the 10 KiB that the API server allows.
var shown = []resourceapi.QualifiedName{
	"resource.kubernetes.io/pciBusID", "resource.kubernetes.io/numaNode", "family", "afuId", "interfaceId", "portId", "pciId", "vbnv", "serialNumber",
}

// Config configures a [Writer]. All fields are required.
type Config struct {
	Node   string // name of the node and its pool
	Client kubernetes.Interface
	Claims Claims
	// Devices is the source of snapshots, usually an [inventory.Inventory].
	Devices interface {
		Latest() (inventory.Snapshot, <-chan struct{})
	}
	// Attributes returns the attributes that a device has in its ResourceSlice.
	Attributes func(*inventory.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	Log        *zap.Logger
}

// Claims is the source of prepared claims, usually a [claims.Claims].
type Claims interface {
	Prepared(context.Context) ([]claims.Prepared, error)
	// Changed returns a channel that is closed when the claims change.
	Changed() <-chan struct{}
}

var _ Claims = (*claims.Claims)(nil)

// Writer writes the status of claims. Create it with [New], and call Run once.
type Writer struct {
	cfg    Config
	log    *zap.Logger
	stored map[string]stored // by claim UID
	failed []string          // UIDs of the claims that couldn't be written, oldest failure first
}

// stored is a claim's status as it is on the API server.
type stored struct {
	preparation int // the claim's preparation; if it changes, the claim may have been deallocated, which clears the status
	devices     []resourceapi.AllocatedDeviceStatus
}

func New(cfg Config) *Writer {
	return &Writer{cfg: cfg, log: cfg.Log.Named("claimstatus"), stored: map[string]stored{}}
}

// Run writes claims' statuses until ctx is done, and then returns nil.
func (w *Writer) Run(ctx context.Context) error {
	retries := backoff.Backoff{First: firstRetry, Most: maxRetry}
	var retry <-chan time.Time // nil if no claims have failed
	due := false
	for {
		snapshot, stale := w.cfg.Devices.Latest()
		changed := w.cfg.Claims.Changed()
		if snapshot.Complete {
			asked, err := w.pass(ctx, snapshot, due)
			switch {
			case ctx.Err() != nil:
				return nil
			case len(w.failed) == 0:
				retries.Reset()
				retry = nil
			case due || retry == nil:
				wait := retries.Next()
				if retry == nil {
					w.log.Warn("status of a claim could not be written", logevent.ClaimStatusFailed, logevent.Resource(draname.Driver), logevent.Err(err), logevent.Retry(wait))
				}
				retry = time.After(wait)
			}
			due = false
			if asked && !backoff.Wait(ctx, interval) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		case <-changed:
		case <-retry:
			due = true
		}
	}
}

// pass writes the status of each claim whose status on the API server is outdated. It reports whether it sent any
// requests, and returns the first error. If retry is true, it also retries claims that failed before, but stops
// retrying at the first one that fails again: a failure may concern a single claim (for example, because of a webhook
// in its namespace), but it may also concern the whole API server.
func (w *Writer) pass(ctx context.Context, s inventory.Snapshot, retry bool) (asked bool, failed error) {
	prepared, err := w.cfg.Claims.Prepared(ctx)
	if err != nil {
		return false, nil // Claims logs the error, and closes its channel when the claims change
	}
	maps.DeleteFunc(w.stored, func(uid string, was stored) bool {
		return !slices.ContainsFunc(prepared, func(c claims.Prepared) bool { return c.UID == uid && c.Preparation == was.preparation })
	})
	var failedBefore []claims.Prepared // to be retried, in the order of w.failed
	for _, uid := range w.failed {
		if i := slices.IndexFunc(prepared, func(c claims.Prepared) bool { return c.UID == uid }); i >= 0 {
			failedBefore = append(failedBefore, prepared[i])
		}
	}
	w.failed = nil
	var newest []string // new failures
	try := func(c claims.Prepared) bool {
		asked = true
		err := w.write(ctx, c, s)
		if err != nil {
			newest, failed = append(newest, c.UID), cmp.Or(failed, err)
		}
		backoff.Wait(ctx, pace)
		return err == nil
	}
	for _, c := range prepared {
		if !slices.ContainsFunc(failedBefore, func(o claims.Prepared) bool { return o.UID == c.UID }) && !w.current(c, s) {
			try(c)
		}
	}
	for _, c := range failedBefore {
		switch {
		case w.current(c, s): // the devices are back in the state that the API server has
		case retry:
			retry = try(c)
		default:
			w.failed = append(w.failed, c.UID)
		}
	}
	w.failed = append(w.failed, newest...)
	return asked, failed
}

// current reports whether a claim's status on the API server is up to date.
func (w *Writer) current(c claims.Prepared, s inventory.Snapshot) bool {
	was, known := w.stored[c.UID]
	return known && same(was.devices, w.statusOf(c, s, was.devices))
}

// write writes a claim's status unless the API server already has it.
func (w *Writer) write(ctx context.Context, c claims.Prepared, s inventory.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	api := w.cfg.Client.ResourceV1().ResourceClaims(c.Namespace)
	known, asked := w.stored[c.UID]
	was := known.devices
	if !asked { // not read since the driver started or the claim was prepared
		claim, err := api.Get(ctx, c.Name, metav1.GetOptions{})
		switch {
		case ofClaim(err), err == nil && string(claim.UID) != c.UID:
			w.stored[c.UID] = stored{c.Preparation, w.statusOf(c, s, nil)}
			return nil
		case err != nil:
			return err
		}
		was = slices.DeleteFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver != draname.Driver })
	}
	want := w.statusOf(c, s, was)
	if !same(was, want) {
		status := apply.ResourceClaimStatus()
		for _, d := range want {
			condition := d.Conditions[0]
			status.WithDevices(apply.AllocatedDeviceStatus().WithDriver(d.Driver).WithPool(d.Pool).WithDevice(d.Device).WithData(*d.Data).WithConditions(
				applymeta.Condition().WithType(condition.Type).WithStatus(condition.Status).WithReason(condition.Reason).
					WithMessage(condition.Message).WithLastTransitionTime(condition.LastTransitionTime)))
		}
		object := apply.ResourceClaim(c.Name, c.Namespace).WithUID(types.UID(c.UID)).WithStatus(status)
		_, err := api.ApplyStatus(ctx, object, metav1.ApplyOptions{FieldManager: draname.Driver, Force: true})
		if apierrors.IsInvalid(err) { // also returned if the service account isn't allowed to write this node's devices
			w.log.Warn("status of a claim was refused", logevent.ClaimStatusFailed, logevent.Resource(draname.Driver), logevent.Claim(c.Namespace+"/"+c.Name), logevent.Err(err))
		}
		if err != nil && !ofClaim(err) {
			return err
		}
	}
	w.stored[c.UID] = stored{c.Preparation, want}
	return nil
}

// ofClaim reports whether an error concerns only this claim, because it was deleted, replaced or deallocated. Such a
// claim isn't retried until its devices change.
func ofClaim(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) }

// statusOf returns the status of a claim's devices. was is the previous status: conditions that haven't changed keep
// its transition times.
func (w *Writer) statusOf(c claims.Prepared, s inventory.Snapshot, was []resourceapi.AllocatedDeviceStatus) []resourceapi.AllocatedDeviceStatus {
	var all []resourceapi.AllocatedDeviceStatus
	for _, id := range c.Devices {
		name := draname.Device(id)
		if slices.ContainsFunc(all, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Device == name }) {
			continue // a claim with admin access can contain the same device twice
		}
		now := s.Device(id)
		condition := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonHealthy, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))}
		data := map[string]any{"id": id}
		switch {
		case now == nil:
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonUnhealthy, "has left the node"
		case now.Health == inventory.Unhealthy:
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonUnhealthy, messageOf(now)
		case now.Health == inventory.Degraded:
			condition.Reason, condition.Message = reasonDegraded, messageOf(now)
		}
		before := slices.IndexFunc(was, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Pool == w.cfg.Node && d.Device == name })
		if before >= 0 && len(was[before].Conditions) == 1 && was[before].Conditions[0].Status == condition.Status {
			condition.LastTransitionTime = was[before].Conditions[0].LastTransitionTime
		}
		if now != nil {
			attributes := w.cfg.Attributes(now)
			for _, attribute := range shown {
				if value := valueOf(attributes[attribute]); value != nil {
					data[path.Base(string(attribute))] = value
				}
			}
		}
		raw, _ := json.Marshal(data) // can't fail for strings and numbers
		all = append(all, resourceapi.AllocatedDeviceStatus{
			Driver: draname.Driver, Pool: w.cfg.Node, Device: name, Conditions: []metav1.Condition{condition}, Data: &runtime.RawExtension{Raw: raw},
		})
	}
	slices.SortFunc(all, func(a, b resourceapi.AllocatedDeviceStatus) int { return cmp.Compare(a.Device, b.Device) })
	return all
}

// messageOf returns a device's health reasons as text, shortened if necessary.
func messageOf(d *inventory.Device) string {
	text := strings.Join(d.Reasons, ", ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// valueOf returns an attribute's value, or nil if it is neither a string nor an integer.
func valueOf(a resourceapi.DeviceAttribute) any {
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case a.IntValue != nil:
		return *a.IntValue
	}
	return nil
}

// same reports whether two statuses have the same content, in any order. JSON is compared by value, because the API
// server may format it differently.
func same(a, b []resourceapi.AllocatedDeviceStatus) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x resourceapi.AllocatedDeviceStatus) bool {
		return !slices.ContainsFunc(b, func(y resourceapi.AllocatedDeviceStatus) bool {
			return x.Pool == y.Pool && x.Device == y.Device && reflect.DeepEqual(decoded(x.Data), decoded(y.Data)) &&
				slices.EqualFunc(x.Conditions, y.Conditions, func(c, d metav1.Condition) bool {
					return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message && c.LastTransitionTime.Equal(&d.LastTransitionTime)
				})
		})
	})
}

func decoded(data *runtime.RawExtension) (value any) {
	if data != nil {
		_ = json.Unmarshal(data.Raw, &value)
	}
	return value
}
