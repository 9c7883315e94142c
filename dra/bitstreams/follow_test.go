package bitstreams_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/dra/bitstreams"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
	"b-com.com/accelerator-device-plugin/test/task"
)

const (
	region, other = "69528db6eb31577a8c3668f9faa081f6", "00000000000000000000000000000001"
	afu           = "d8424dc4a4a3c413f89e433683f9040b"
)

// The followed bitstreams are always those in the store: when a file or the directory of an interface appears or
// disappears, and when the store itself does.
func TestFollow(t *testing.T) {
	core, logs := eventtest.Observed(t)
	store := t.TempDir() + "/store"
	add := func(path string) {
		t.Helper()
		must.Succeed(t, os.MkdirAll(filepath.Dir(store+"/"+path), 0o755), os.WriteFile(store+"/"+path, nil, 0o644))
	}
	add(region + "/" + afu + ".gbs")
	f := bitstreams.New(programming.Store(store), zap.New(core))
	await := func(want ...programming.Stored) {
		t.Helper()
		for {
			got, stale := f.Latest()
			if cmp.Equal(want, got) {
				return
			}
			select {
			case <-stale:
			case <-t.Context().Done():
				t.Fatalf("found %v, want %v", got, want)
			}
		}
	}
	one, two, three := programming.Stored{InterfaceID: region, ID: afu}, programming.Stored{InterfaceID: region, ID: region}, programming.Stored{InterfaceID: other, ID: afu}
	await(one)
	end := task.Run(t, f.Run)
	add(region + "/" + region + ".gbs")
	await(two, one)
	add(other + "/" + afu + ".gbs")
	await(three, two, one)
	must.Succeed(t, os.Remove(store+"/"+other+"/"+afu+".gbs"))
	await(two, one)
	add(other + "/" + afu + ".gbs")
	await(three, two, one)
	const last = "ffffffffffffffffffffffffffffffff"
	must.Succeed(t, os.Mkdir(store+"/"+last, 0o755)) // its first file is being copied
	add(region + "/0123abcd.aocx")                   // has no valid name in the API
	must.Succeed(t, os.Remove(store+"/"+region+"/"+region+".gbs"))
	await(three, one)
	began := time.Now()
	add(last + "/" + afu + ".gbs")
	await(three, one, programming.Stored{InterfaceID: last, ID: afu})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the first bitstream of an interface was found after %s", took)
	}
	must.Succeed(t, os.RemoveAll(store+"/"+last))
	must.Succeed(t, os.Chmod(store+"/"+region, 0o777))
	await(three)
	must.Succeed(t, os.RemoveAll(store))
	await()
	end()
	compare.Equal(t, "lines about the directory that others can write", 1, len(logs.FilterField(logevent.StoreFailed).All()))
}

// A download into the store, which may take an hour, does not delay anything.
func TestDownload(t *testing.T) {
	store := t.TempDir()
	f := bitstreams.New(programming.Store(store), zap.NewNop())
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error)
	_, stale := f.Latest()
	install := func(name string) error {
		return errors.Join(os.MkdirAll(store+"/"+region, 0o755), os.WriteFile(store+"/"+region+"/"+name, nil, 0o644))
	}
	task.Run(t, f.Run)
	must.Succeed(t, install(afu+".gbs"))
	<-stale // the store is watched
	_, stale = f.Latest()
	began := time.Now()
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var err error
		for n := 0; err == nil && ctx.Err() == nil; n++ {
			<-tick.C
			if err = os.WriteFile(store+"/.pull-0123.gbs", []byte("part"), 0o600); n == 20 {
				err = errors.Join(err, install(region+".gbs"))
			}
		}
		written <- err
	}()
	<-stale
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("found the bitstream after %s", took)
	}
	stop()
	compare.NoError(t, "writing", <-written)
}

// The number of slices of a node is limited.
func TestMany(t *testing.T) {
	core, logs := eventtest.Observed(t)
	store := t.TempDir()
	must.Succeed(t, os.Mkdir(store+"/"+region, 0o755))
	for i := range 600 {
		must.Succeed(t, os.WriteFile(fmt.Sprintf("%s/%s/%032x.gbs", store, region, i), nil, 0o644))
	}
	found, _ := bitstreams.New(programming.Store(store), zap.New(core)).Latest()
	if lines := logs.FilterField(logevent.StoreFailed).All(); len(found) != 512 || len(lines) != 1 || lines[0].ContextMap()["count"] != int64(88) {
		t.Errorf("found %d bitstreams, and %v, want 512, and a line with the number of the others", len(found), lines)
	}
}

// A store that hangs does not keep the driver from starting. The store is read again when it answers.
func TestHangs(t *testing.T) {
	core, logs := eventtest.Observed(t)
	store := privatedirtest.Dir(t)
	must.Succeed(t, os.MkdirAll(store+"/"+region, 0o755))
	must.Succeed(t, os.WriteFile(store+"/"+region+"/"+afu+".gbs", nil, 0o644))
	release := privatedirtest.Hang(t, store)
	f := bitstreams.New(programming.Store(store), zap.New(core))
	found, stale := f.Latest()
	if lines := logs.FilterField(logevent.StoreFailed).All(); len(found) > 0 || len(lines) != 1 || lines[0].ContextMap()["error"] != store+": no answer: the file system hangs" {
		t.Errorf("found %v, and %v, want nothing, and a line", found, lines)
	}
	release()
	end := task.Run(t, f.Run)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-stale:
			waiting = false
		case <-tick.C: // the first reading may have been too early
			must.Succeed(t, os.Chmod(store+"/"+region, 0o755))
		}
	}
	end()
	if found, _ := f.Latest(); len(found) != 1 {
		t.Errorf("found %v, want the bitstream", found)
	}
}
