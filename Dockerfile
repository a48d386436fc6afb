# The controller as an image: one static binary, no shell, not root.
# The stage `build` compiles it; with `--build-arg BINARY=prebuilt` it is taken from dist/, where
# scripts/static-binary puts it for each platform.
ARG BINARY=build

FROM rust:1.95.0-alpine AS build
# that of the image, without the components that rust-toolchain.toml names: rustup downloads nothing
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --release --locked --no-default-features --bin appwrapper \
    && cp target/release/appwrapper /appwrapper

FROM scratch AS prebuilt
ARG TARGETARCH
COPY dist/appwrapper-linux-${TARGETARCH} /appwrapper

FROM ${BINARY} AS binary

FROM scratch
COPY --from=binary /appwrapper /appwrapper
USER 65532:65532
ENTRYPOINT ["/appwrapper"]
CMD ["run"]
