# Build on the builder's own platform for the target's: Go cross-compiles.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY api/ api/
COPY cmd/ cmd/
COPY internal/ internal/
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /manager ./cmd

FROM gcr.io/distroless/static:nonroot
LABEL org.opencontainers.image.title="pathways-job" \
      org.opencontainers.image.description="The PathwaysJob operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
