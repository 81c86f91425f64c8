//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/test/kube"
)

// How the resources of the section operator are spread.
const (
	operatorResources  = 1000 // MCPServers
	operatorNamespaces = 10
	operatorReferrers  = 50 // of one MCPExternalAuthConfig
	operatorPatience   = 10 * time.Minute
)

// operatorBench is an API server with resources, and an operator at it.
type operatorBench struct {
	*bench
	api     client.Client
	proxy   *countingProxy
	servers int
	seen    int64 // writes, when made looked last
}

// operator measures thv-operator at a real API server: the time for 1,000 resources that are
// there when it starts, what it writes and requests afterwards, its memory, and what an edit
// of one resource costs to which 50 others refer. No pod runs there: the Deployments become
// available by hand.
func (b *bench) operator(ctx context.Context) ([]result, error) {
	ctrllog.SetLogger(logr.Discard())
	cluster, end, err := kube.New()
	if err != nil {
		return nil, err
	}
	defer end()
	api, err := client.New(cluster.Config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, err
	}
	proxy, err := newCountingProxy(cluster.Config, b.dir)
	if err != nil {
		return nil, err
	}
	defer proxy.close()
	o := &operatorBench{bench: b, api: api, proxy: proxy, servers: max(operatorReferrers, b.times(operatorResources))}
	if err := o.declare(ctx); err != nil {
		return nil, err
	}
	pid, stop, err := o.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { stop() }()
	cold, err := o.until(ctx, o.made)
	if err != nil {
		return nil, fmt.Errorf("the objects are made: %w", err)
	}
	results := []result{itself(fmt.Sprintf("operator: %d servers from cold", o.servers), "s", cold.Seconds()).limited(60, "under 60 s")}
	objects, most, path := proxy.written()
	fmt.Fprintf(os.Stderr, "operator: %d requests for %d servers, of which %d write, %d paths, the most %d to %s; and %d events\n",
		proxy.requests.Load(), o.servers, proxy.writes.Load(), objects, most, path, proxy.events.Load())
	if err := o.available(ctx); err != nil {
		return nil, err
	}
	if _, err := o.until(ctx, o.ready); err != nil {
		return nil, fmt.Errorf("the servers are ready: %w", err)
	}
	steady, err := o.steady(ctx, pid)
	if err != nil {
		return nil, err
	}
	edited, err := o.edit(ctx)
	if err != nil {
		return nil, err
	}
	stop()
	proxy.reset()
	_, stop, err = o.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.rest(ctx); err != nil {
		return nil, err
	}
	return append(append(append(results, steady...), edited...),
		atMost(itself("operator: writes of one that starts when all is there", "writes", float64(proxy.writes.Load())), 0, "none")), nil
}

// declare makes the resources, before the operator runs.
func (o *operatorBench) declare(ctx context.Context) error {
	for i := range operatorNamespaces {
		if err := o.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}); err != nil {
			return err
		}
	}
	shared := &v1beta1.MCPExternalAuthConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(0), Name: "shared"}, Spec: externalauth.Spec{
		Type: externalauth.TypeHeaderInjection, HeaderInjection: &externalauth.HeaderInjection{HeaderName: "X-Key", ValueSecretRef: &externalauth.SecretRef{Name: "keys", Key: "x"}},
	}}
	if err := o.api.Create(ctx, shared); err != nil {
		return err
	}
	return each(o.servers, func(i int) error {
		s := &v1beta1.MCPServer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: fmt.Sprintf("server-%d", i)},
			Spec:       v1beta1.MCPServerSpec{Image: "registry.example/server:1", Transport: "streamable-http"},
		}
		s.Spec.Replicas = ptr.To[int32](1)
		if i < operatorReferrers {
			s.Namespace, s.Spec.ExternalAuthConfigRef = namespaceOf(0), &v1beta1.NameRef{Name: "shared"}
		}
		return o.api.Create(ctx, s)
	})
}

func namespaceOf(i int) string { return fmt.Sprintf("bench-%d", i%operatorNamespaces) }

// each calls f for 0 to n-1, some at a time.
func each(n int, f func(i int) error) error {
	var all sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, n)
	for range 8 {
		all.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	close(errs)
	return <-errs
}

// start starts the operator, whose requests pass the proxy.
func (o *operatorBench) start(ctx context.Context) (pid int, stop func(), err error) {
	program := filepath.Join(filepath.Dir(o.thvPath), "thv-operator")
	cmd := exec.CommandContext(ctx, program, "run", "--gateway-image", "thv:bench", "--kubeconfig", o.proxy.kubeconfig,
		"--leader-election-namespace", "default", "--metrics-address", "0", "--health-address", "0", "--webhook-port", "0")
	log, err := os.Create(filepath.Join(o.dir, "operator.log"))
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("%w; build it with `make build`", err)
	}
	return cmd.Process.Pid, sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it gives the lease back
		_ = cmd.Wait()
	}), nil
}

// until waits for done, and returns how long that took.
func (o *operatorBench) until(ctx context.Context, done func(context.Context) (bool, error)) (time.Duration, error) {
	for began := time.Now(); ; time.Sleep(250 * time.Millisecond) {
		ok, err := done(ctx)
		if ok || err != nil {
			return time.Since(began), err
		}
		if time.Since(began) > operatorPatience {
			log, _ := os.ReadFile(filepath.Join(o.dir, "operator.log"))
			return 0, fmt.Errorf("not within %s:\n%.4000s", operatorPatience, log)
		}
	}
}

// made reports whether each server has a status of its generation, and its objects, which are
// written before. As long as the operator writes, it is not done, and the API server, on which
// its time depends, does nothing for this question.
func (o *operatorBench) made(ctx context.Context) (bool, error) {
	before := o.seen
	if o.seen = o.proxy.writes.Load(); o.seen > before || o.seen == 0 {
		return false, nil
	}
	return o.statuses(ctx, "Valid")
}

func (o *operatorBench) ready(ctx context.Context) (bool, error) { return o.statuses(ctx, "Ready") }

// statuses reports whether a condition of each server is True, of its generation.
func (o *operatorBench) statuses(ctx context.Context, condition string) (bool, error) {
	var list v1beta1.MCPServerList
	if err := o.api.List(ctx, &list); err != nil {
		return false, err
	}
	for i := range list.Items {
		s := &list.Items[i]
		if s.Status.ObservedGeneration != s.Generation || !meta.IsStatusConditionTrue(s.Status.Conditions, condition) {
			return false, nil
		}
	}
	return len(list.Items) == o.servers, nil
}

// available does what the controllers of a cluster do with Deployments.
func (o *operatorBench) available(ctx context.Context) error {
	var list appsv1.DeploymentList
	if err := o.api.List(ctx, &list); err != nil {
		return err
	}
	if len(list.Items) != o.servers {
		return fmt.Errorf("there are %d Deployments for %d servers", len(list.Items), o.servers)
	}
	return each(len(list.Items), func(i int) error {
		d := &list.Items[i]
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		return o.api.Status().Update(ctx, d)
	})
}

// rest waits until the operator has written nothing for three seconds.
func (o *operatorBench) rest(ctx context.Context) error {
	last, since := o.proxy.requests.Load(), time.Now()
	_, err := o.until(ctx, func(context.Context) (bool, error) {
		if now := o.proxy.requests.Load(); now != last || now == 0 {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second, nil
	})
	return err
}

// steady measures what the operator does when there is nothing to do, and its memory.
func (o *operatorBench) steady(ctx context.Context, pid int) ([]result, error) {
	if err := o.rest(ctx); err != nil {
		return nil, err
	}
	o.proxy.reset()
	watched := time.Minute / time.Duration(o.scale)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(watched):
	}
	memory, err := resident(pid)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("operator: in %s of the steady state", watched)
	return []result{
		atMost(itself(name+", writes", "writes", float64(o.proxy.writes.Load())), 0, "none"),
		atMost(itself(name+", requests but watches and the lease", "requests", float64(o.proxy.requests.Load())), 0, "none"),
		itself(fmt.Sprintf("operator: memory with %d servers", o.servers), "MiB", memory).limited(80, "under 80 MiB"),
	}, nil
}

// edit measures what an edit of a resource costs to which many refer, and how long a deleted one
// stays after its last reference.
func (o *operatorBench) edit(ctx context.Context) ([]result, error) {
	shared := &v1beta1.MCPExternalAuthConfig{}
	key := client.ObjectKey{Namespace: namespaceOf(0), Name: "shared"}
	if err := o.api.Get(ctx, key, shared); err != nil {
		return nil, err
	}
	o.proxy.reset()
	shared.Spec.HeaderInjection.HeaderName = "X-Other"
	if err := o.api.Update(ctx, shared); err != nil {
		return nil, err
	}
	if err := o.rest(ctx); err != nil {
		return nil, err
	}
	objects, most, path := o.proxy.written()
	if most > 1 {
		fmt.Fprintf(os.Stderr, "operator: %d writes of %s\n", most, path)
	}
	results := []result{
		atMost(itself(fmt.Sprintf("operator: writes of one object at an edit to which %d refer, the most", operatorReferrers), "writes", float64(most)), 1, "one each"),
		itself(fmt.Sprintf("operator: objects that such an edit writes (3 of each of %d, and its own status)", operatorReferrers), "objects", float64(objects)),
	}
	// A resource of its own with one reference.
	last := &v1beta1.MCPExternalAuthConfig{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "last"}, Spec: externalauth.Spec{Type: externalauth.TypeUnauthenticated}}
	referrer := &v1beta1.MCPServerEntry{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "last"}, Spec: v1beta1.MCPServerEntrySpec{
		RemoteServer: v1beta1.RemoteServer{RemoteURL: "https://mcp.example/mcp"}, Transport: "streamable-http",
		GroupRef: &v1beta1.NameRef{Name: "none"}, ExternalAuthConfigRef: &v1beta1.NameRef{Name: "last"},
	}}
	for _, object := range []client.Object{last, referrer} {
		if err := o.api.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	blocked := func(ctx context.Context) (bool, error) {
		err := o.api.Get(ctx, client.ObjectKeyFromObject(last), last)
		return last.Status.ReferenceCount == 1 && len(last.Finalizers) > 0, err
	}
	if _, err := o.until(ctx, blocked); err != nil {
		return nil, err
	}
	if err := o.api.Delete(ctx, last); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := o.api.Delete(ctx, referrer); err != nil {
		return nil, err
	}
	for time.Since(began) < operatorPatience {
		if err := o.api.Get(ctx, client.ObjectKeyFromObject(last), last); apierrors.IsNotFound(err) {
			return append(results, itself("operator: a deleted resource after its last reference is gone", "ms", milliseconds(time.Since(began))).limited(1000, "under 1 s")), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, errors.New("a resource without references is not deleted")
}

// isLease reports whether a request is about the lease of operators.
func isLease(path string) bool { return strings.Contains(path, "/coordination.k8s.io/") }
