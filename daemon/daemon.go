package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
)

// API is the Kubernetes API through which a daemon advertises its devices: the device plugin API or DRA. The daemon
// calls Configure, Start, Run, Withdraw and Close at most once each, in that order. All other methods must be safe for
// concurrent use, and are only called after Start unless noted otherwise.
type API interface {
	// Configure sets the cfg fields that have to do with holders: Holders, Record and Given. It also sets
	// HoldersUnknown if Record may be incomplete. (The daemon has already set HoldersUnknown if containers may hold
	// devices through the other API.)
	Configure(ctx context.Context, cfg *inventory.Config) error
	// Start passes the inventory to the API. The inventory isn't running yet. ctx is canceled when the daemon exits.
	Start(ctx context.Context, inv *inventory.Inventory)
	// Run advertises the devices until ctx is done. If it returns an error, the daemon exits.
	Run(ctx context.Context) error
	// Withdraw removes any devices from Kubernetes that would otherwise stay there after the daemon has exited, and
	// returns nil if none are left. It is called after Run has returned, even if Start was never called, but not if the
	// daemon has failed or if another daemon for this API is running on the node.
	Withdraw(ctx context.Context) error
	// Close releases whatever the API has opened. It is called once all tasks have ended.
	Close() error

	// Policy returns the inventory's policy for these settings and cordons, including how devices are named. It is also
	// called before Start.
	Policy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy
	// Reregister makes the API register with the kubelet again.
	Reregister()
	// Holders returns the current holders of each device. It may block until ctx is done.
	Holders(ctx context.Context) inventory.Holdings
	// Resources returns the resources under which devices are advertised.
	Resources() []metrics.Resource
	// Alive returns an error if one of the API's main goroutines hangs.
	Alive() error
	// Ready returns nil once Kubernetes knows about the devices.
	Ready() error
}

// Daemon follows a node's devices and advertises them through an API. Its fields don't change while it is running.
type Daemon struct {
	Program string        // the program's name, for the API server
	Version string        // the program's version
	Kind    string        // the API: control.DevicePlugin or control.DRA
	Config  config.Config // as read at startup
	Log     *zap.Logger
	Metrics *metrics.Metrics
	Open    func() (API, error) // opens the API at startup
	Guest   bool                // doesn't advertise devices, so it can run without the node lock, alongside the owner

	Loader  *config.Loader   // the loader that loaded Config; nil if there are no files
	Hangups <-chan os.Signal // SIGHUP; nil if Serve shouldn't handle it
	toggles <-chan os.Signal // SIGUSR1; nil if Serve shouldn't handle it
	toggle  func()           // toggles the debug level; not used if toggles is nil
}

// Serve opens everything that the daemon needs and starts its tasks. It then keeps the inventory's policy up to date
// until ctx is done or a task fails.
func (d *Daemon) Serve(ctx context.Context) (failed error) {
	defer backlog.FlushOnPanic(d.Log)
	if err := checkStateDir(ctx, d.Config.StateDir, d.Kind); err != nil {
		return err
	}
	api, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, api.Close()) }()
	client, err := d.apiServer()
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	r := &run{
		Daemon: d, tasks: tasks, api: api, client: client, owned: owner.New(d.Config.StateDir, d.Kind, d.Log), cfg: d.Config,
		changed: make(chan config.Files),
	}
	defer func() { // after all tasks have ended
		withdraw := api.Withdraw
		if failed != nil || ctx.Err() == nil { // after a panic, tasks are still running and might advertise devices again
			withdraw = nil
		}
		r.owned.Leave(ctx, withdraw)
	}()
	if err := r.serve(ctx); err != nil {
		tasks.Go(func() error { return err }) // ends the other tasks
	}
	return tasks.Wait()
}

// apiServer returns a client for the API server, or nil if none is needed.
func (d *Daemon) apiServer() (*apiserver.Client, error) {
	if d.Config.NodeName == "" || !d.Config.NodeAnnotation && !d.Config.Events && d.Config.NodeConditionType == "" {
		return nil, nil
	}
	client, err := apiserver.Open(apiserver.Config{
		Kubeconfig: d.Config.Kubeconfig, LookupEnv: os.LookupEnv, UserAgent: d.Program + "/" + d.Version,
		Failed: d.Metrics.APIFailed,
	}, d.Log)
	if err != nil {
		return nil, fmt.Errorf("--node-name %s: %w", d.Config.NodeName, err)
	}
	return client, nil
}
