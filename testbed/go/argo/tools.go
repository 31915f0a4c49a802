//go:build tools

// Package tools pins the controller of Argo Workflows and its executor.
package tools

import (
	_ "github.com/argoproj/argo-workflows/v4/cmd/argoexec"
	_ "github.com/argoproj/argo-workflows/v4/cmd/workflow-controller"
)
