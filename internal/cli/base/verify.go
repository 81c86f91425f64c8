package base

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/distribution/reference"

	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/container/docker"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/verify"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Verified is the outcome of VerifyImage.
type Verified struct {
	// Ref is the image to run: the Spec's, by its digest if it was verified.
	Ref string
	// Notices are sentences for the user.
	Notices []string

	result verify.Result // zero: not verified
}

// Record writes into the resolved Spec what was verified, if anything was.
func (v Verified) Record(s *workload.Spec) {
	if v.result.Digest != "" {
		s.Verified(v.result.Digest, v.result.Signer)
	}
}

// VerifyImage verifies the image of a Spec as far as the Spec demands it. With warn, what is
// wrong is a notice, and an image that neither a registry entry nor the policy file names is
// not looked up at all. With enabled, the error states why the image does not run.
func (a *App) VerifyImage(ctx context.Context, engine container.Engine, s *workload.Spec, progress func(manager.Event)) (Verified, error) {
	out := Verified{Ref: s.Image}
	if s.Package != nil && s.Container.Verification() == workload.VerifyEnabled {
		out.Notices = append(out.Notices, "the image is built on this machine, so there is no signature of it to verify")
	}
	req, err := a.requirement(s)
	enabled := s.Container.Verification() == workload.VerifyEnabled
	if errors.Is(err, verify.ErrNoPolicy) && !enabled {
		if s.Container.Provenance != nil {
			out.Notices = append(out.Notices, "the image is not verified: "+err.Error())
		}
		return out, nil
	}
	if err == nil && req == nil {
		return out, nil
	}
	if err == nil {
		progress(manager.Event{Stage: "image", Message: "verifying who signed " + s.Image})
		out.result, err = a.verifyImage(ctx, engine, s, req)
	}
	switch {
	case err == nil:
		out.Ref, err = pinned(s.Image, out.result.Digest)
		return out, err
	case ctx.Err() != nil || !known(err):
		return out, err
	case enabled:
		return out, fmt.Errorf("%w; --image-verification=warn runs it all the same", err)
	}
	out.Notices = append(out.Notices, "the image is not verified, and runs all the same: "+err.Error()+"; --image-verification=enabled would refuse it")
	return out, nil
}

// known reports whether an error is about the image's signatures; others, such as a policy
// file that cannot be read, are not for --image-verification to decide.
func known(err error) bool {
	for _, kind := range []error{verify.ErrNoPolicy, verify.ErrUnsigned, verify.ErrSigner, verify.ErrInvalid, verify.ErrUnreachable} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// requirement returns what is required of the image's signatures; nil without an error is
// nothing.
func (a *App) requirement(s *workload.Spec) (*verify.Requirement, error) {
	if s.Remote != nil || s.Package != nil || s.Container.Verification() == workload.VerifyDisabled {
		return nil, nil
	}
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	policy, err := verify.LoadPolicy(dirs.Config)
	if err != nil {
		return nil, AsUsage(err)
	}
	var provenance *verify.Provenance
	if p := s.Container.Provenance; p != nil {
		provenance = &verify.Provenance{
			SigstoreURL: p.SigstoreURL, RepositoryURI: p.RepositoryURI, RepositoryRef: p.RepositoryRef,
			SignerIdentity: p.SignerIdentity, RunnerEnvironment: p.RunnerEnvironment, CertIssuer: p.CertIssuer,
		}
		if a := p.Attestation; a != nil {
			provenance.PredicateType, provenance.Predicate = a.PredicateType, string(a.Predicate)
		}
	}
	return policy.For(s.Image, provenance)
}

func (a *App) verifyImage(ctx context.Context, engine container.Engine, s *workload.Spec, req *verify.Requirement) (verify.Result, error) {
	info, err := engine.Info(ctx)
	if err != nil {
		return verify.Result{}, err
	}
	image := verify.Image{Ref: s.Image, OS: info.OS, Arch: info.Arch}
	// An image that is on the engine already would run, whatever its tag means elsewhere.
	local, err := engine.Image(ctx, s.Image)
	switch {
	case errors.Is(err, container.ErrNotFound):
	case err != nil:
		return verify.Result{}, err
	default:
		if image.Local, err = ownDigests(s.Image, local.Digests); err != nil {
			return verify.Result{}, err
		}
		if len(image.Local) == 0 {
			return verify.Result{}, fmt.Errorf("%w: the engine's image %s was not pulled from its registry, so there is no signature of it; remove it with `docker rmi %s` to pull it", verify.ErrUnsigned, s.Image, s.Image)
		}
	}
	dirs, err := a.Dirs()
	if err != nil {
		return verify.Result{}, err
	}
	v := &verify.Verifier{
		CAFiles: s.CAFiles(), CacheDir: filepath.Join(dirs.State, "sigstore"),
		Login: func(ctx context.Context, ref string) (verify.Login, error) {
			login, err := docker.RegistryLogin(ctx, ref, a.Env)
			return verify.Login(login), err
		},
	}
	return v.Verify(ctx, image, req)
}

// ownDigests are those of an engine's digests, REPOSITORY@sha256:..., that are of the
// reference's repository.
func ownDigests(ref string, digests []string) ([]string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not an image reference: %w", ref, err)
	}
	var own []string
	for _, text := range digests {
		other, err := reference.ParseNormalizedNamed(text)
		if digested, ok := other.(reference.Digested); err == nil && ok && other.Name() == named.Name() {
			own = append(own, digested.Digest().String())
		}
	}
	return own, nil
}

// pinned is a reference by a digest, without its tag.
func pinned(ref, digest string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	return reference.FamiliarName(named) + "@" + digest, nil
}

// PlannedVerification describes for --dry-run what of the image's signatures would be
// checked; "" is nothing. Nothing is fetched.
func (a *App) PlannedVerification(s *workload.Spec) (string, error) {
	if s.Package != nil && s.Container.Verification() == workload.VerifyEnabled {
		return "none; the image is built on this machine", nil
	}
	req, err := a.requirement(s)
	mode := s.Container.Verification()
	switch {
	case errors.Is(err, verify.ErrNoPolicy) && mode == workload.VerifyEnabled:
		return fmt.Sprintf("%v; it would not run", err), nil
	case errors.Is(err, verify.ErrNoPolicy) && s.Container.Provenance == nil:
		return "", nil
	case errors.Is(err, verify.ErrNoPolicy):
		return fmt.Sprintf("none: %v", err), nil
	case err != nil || req == nil:
		return "", err
	case mode == workload.VerifyEnabled:
		return "it runs only if signed by " + req.String(), nil
	}
	return "signed by " + req.String() + "; otherwise it runs with a note", nil
}
