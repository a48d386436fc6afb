# The controller as an image: one static binary, no shell, not root.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --release --locked --no-default-features --bin appwrapper

FROM scratch
COPY --from=build /src/target/release/appwrapper /appwrapper
USER 65532:65532
ENTRYPOINT ["/appwrapper"]
CMD ["run"]
