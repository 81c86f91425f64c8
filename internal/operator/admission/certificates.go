package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Options say where a certificate is.
type Options struct {
	// Directory has the files tls.crt and tls.key, which another program keeps. Nothing is
	// read or written in the cluster then. "" keeps a certificate of our own.
	Directory string
	// Namespace and Secret are where our own is.
	Namespace, Secret string
	// Hosts are the names at which the API server reaches the webhook; by default those of
	// Service.
	Hosts   []string
	Service string
	// Configuration is the ValidatingWebhookConfiguration that gets the authority.
	Configuration string
	Log           *slog.Logger
}

// Keys of the Secret.
const (
	keyAuthority   = "ca.crt"
	keyCertificate = corev1.TLSCertKey
	keyPrivate     = corev1.TLSPrivateKeyKey
)

// Certificates keeps the certificate of the webhook's server. Several processes may do so for
// one Secret at a time: the authority of a new certificate is trusted before any of them
// serves it, and that of the old one stays trusted until its end.
type Certificates struct {
	options Options
	api     kubernetes.Interface
	now     func() time.Time
	// look is how often the clock is read: it may jump, and timers do not follow it.
	look time.Duration

	current atomic.Pointer[tls.Certificate]
	watcher *certwatcher.CertWatcher // of Directory
}

// NewCertificates checks the options. With a Directory its files must be there.
func NewCertificates(config *rest.Config, options Options) (*Certificates, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if len(options.Hosts) == 0 {
		service := options.Service + "." + options.Namespace + ".svc"
		options.Hosts = []string{service, service + ".cluster.local"}
	}
	c := &Certificates{options: options, now: time.Now, look: time.Minute}
	var err error
	if d := options.Directory; d != "" {
		c.watcher, err = certwatcher.New(filepath.Join(d, keyCertificate), filepath.Join(d, keyPrivate))
		if err != nil {
			return nil, fmt.Errorf("the webhook's certificate: %w", err)
		}
		return c, nil
	}
	c.api, err = kubernetes.NewForConfig(config)
	return c, err
}

// NeedLeaderElection is false: each process serves the webhook.
func (c *Certificates) NeedLeaderElection() bool { return false }

// tlsOptions are those of the server.
func (c *Certificates) tlsOptions() []func(*tls.Config) {
	return []func(*tls.Config){func(config *tls.Config) {
		config.MinVersion = tls.VersionTLS12
		config.GetCertificate = c.get
	}}
}

var errNoCertificate = errors.New("the webhook has no certificate yet")

func (c *Certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.watcher != nil {
		return c.watcher.GetCertificate(hello)
	}
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNoCertificate
}

// Start keeps the certificate until ctx ends. It looks at the Secret and the configuration
// when one of them changes, and when the certificate is to be replaced, also because the clock
// has jumped; it makes no request otherwise. What fails is tried again.
func (c *Certificates) Start(ctx context.Context) error {
	if c.watcher != nil {
		return c.watcher.Start(ctx)
	}
	changed := make(chan struct{}, 1)
	for _, open := range []func(context.Context) (watch.Interface, error){c.watchSecret, c.watchConfiguration} {
		go watchAll(ctx, open, changed)
	}
	const least, most = time.Second, time.Minute
	pause := least
	for {
		from, end, err := c.ensure(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // to end was asked for
		}
		if err != nil {
			c.options.Log.Warn("the webhook's certificate cannot be kept; trying again", "error", err, "after", pause)
			wait(ctx, changed, pause)
			pause = min(2*pause, most)
			continue
		}
		pause = least
		for !wait(ctx, changed, c.look) {
			if now := c.now(); now.Before(from) || now.After(end) {
				break
			}
		}
	}
}

// wait waits for a change, the end of ctx, or a time, and returns false for the last one.
func wait(ctx context.Context, changed <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-changed:
		return true
	case <-timer.C:
		return false
	}
}

func (c *Certificates) watchSecret(ctx context.Context) (watch.Interface, error) {
	return c.api.CoreV1().Secrets(c.options.Namespace).Watch(ctx, only(c.options.Secret))
}

func (c *Certificates) watchConfiguration(ctx context.Context) (watch.Interface, error) {
	return c.api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Watch(ctx, only(c.options.Configuration))
}

// only selects one object by its name, which is what rights by name permit to watch.
func only(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// watchAll sends to changed for each event. A watch that ends is opened again, and what was
// missed between two is a change.
func watchAll(ctx context.Context, open func(context.Context) (watch.Interface, error), changed chan<- struct{}) {
	note := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		w, err := open(ctx)
		if err == nil {
			note()
			for range w.ResultChan() {
				note()
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// ensure makes the Secret, the configuration and the server agree. It writes only what
// changes. It is to be called again before from, and after end.
func (c *Certificates) ensure(ctx context.Context) (from, end time.Time, err error) {
	secrets := c.api.CoreV1().Secrets(c.options.Namespace)
	for range 5 {
		stored, err := secrets.Get(ctx, c.options.Secret, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return from, end, err
		}
		found := err == nil
		if found {
			p := &pair{stored.Data[keyAuthority], stored.Data[keyCertificate], stored.Data[keyPrivate]}
			certificate, end, err := p.check(c.options.Hosts, c.now())
			if err == nil {
				if err := c.trust(ctx, p.authority); err != nil {
					return from, end, err
				}
				c.current.Store(certificate)
				from = certificate.Leaf.NotBefore
				return from, end, nil
			}
			c.options.Log.Info("replacing the webhook's certificate", "because", err)
		}
		if err := c.replace(ctx, stored, found); err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return from, end, err
		}
		// Another process may have been first: its certificate counts.
	}
	return from, end, errors.New("other processes replace the certificate all the time")
}

// replace writes a new certificate to the Secret, after its authority is trusted.
func (c *Certificates) replace(ctx context.Context, stored *corev1.Secret, found bool) error {
	p, err := newPair(c.options.Hosts, c.now())
	if err != nil {
		return err
	}
	if err := c.trust(ctx, p.authority); err != nil {
		return err
	}
	secrets := c.api.CoreV1().Secrets(c.options.Namespace)
	data := map[string][]byte{keyAuthority: p.authority, keyCertificate: p.certificate, keyPrivate: p.key}
	if !found {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: c.options.Secret, Namespace: c.options.Namespace},
			Type:       corev1.SecretTypeTLS, Data: data,
		}, metav1.CreateOptions{})
		return err
	}
	stored = stored.DeepCopy()
	stored.Data = data
	_, err = secrets.Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

// trust adds an authority to each webhook of the configuration, and removes those that have
// ended.
func (c *Certificates) trust(ctx context.Context, authority []byte) error {
	configurations := c.api.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		configuration, err := configurations.Get(ctx, c.options.Configuration, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !addAuthority(configuration, authority, c.now()) {
			return nil
		}
		_, err = configurations.Update(ctx, configuration, metav1.UpdateOptions{})
		return err
	})
}

func addAuthority(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, authority []byte, now time.Time) (changed bool) {
	for i := range configuration.Webhooks {
		client := &configuration.Webhooks[i].ClientConfig
		if bundle := joinBundle(client.CABundle, authority, now); !bytes.Equal(bundle, client.CABundle) {
			client.CABundle, changed = bundle, true
		}
	}
	return changed
}
