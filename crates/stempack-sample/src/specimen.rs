//! What the synthetic specimen looks like: crystalline particles on a thin support, and the diffraction pattern
//! that each scan position gives.
//!
//! The physics is a sketch that makes the usual pictures show what they are for: the bright field loses intensity
//! where a particle scatters, the dark field gains it, lattice fringes run across each particle, and the disk moves
//! with the slope of the thickness so that the centre of mass shows the rims.

use crate::random::Stream;
use stempack_model::{DetectorShape, ScanShape};

/// Bright-field radius as a part of the smaller detector side.
const DISK_RADIUS: f64 = 0.19;
/// Width of the disk's edge in pixels.
const DISK_EDGE: f64 = 0.7;
/// Counts of one pixel inside the disk, over the bare support.
const DISK_COUNTS: f64 = 3.0;
/// How far the disk moves, in detector pixels, where the relative thickness rises by one from one scan position to
/// the next.
const DEFLECTION: f64 = 16.0;
/// Disk shifts are tabulated every quarter pixel up to this many pixels.
const LARGEST_SHIFT: f64 = 2.0;
const STEPS_PER_PIXEL: f64 = 4.0;

/// One particle on the support.
#[derive(Clone, Debug)]
struct Particle {
    row: f64,
    col: f64,
    radius: f64,
    thickness: f64,
    /// Direction of the lattice, which facets and Bragg spots follow.
    angle: f64,
    /// Direction and period of its lattice fringes, in scan positions.
    fringe: [f64; 2],
    phase: f64,
    /// Pattern of its Bragg spots, one value per detector pixel.
    spots: Vec<f32>,
}

/// The specimen with the tables that its patterns are mixed from.
#[derive(Clone, Debug)]
pub(crate) struct Specimen {
    scan: ScanShape,
    particles: Vec<Particle>,
    shifted_disks: Vec<Vec<f32>>,
    /// Diffuse scattering of the support and amorphous rings.
    diffuse: Vec<f32>,
    ring: Vec<f32>,
}

/// What one scan position adds up.
struct Mixture<'a> {
    disk: &'a [f32],
    disk_weight: f32,
    diffuse_weight: f32,
    ring_weight: f32,
    spots: Option<(&'a [f32], f32)>,
}

/// Where the undiffracted beam hits the detector, `(row, col)` in pixels, off centre as on a real instrument.
pub(crate) fn beam_centre(detector: DetectorShape) -> [f64; 2] {
    [0.5065 * detector.rows() as f64, 0.4983 * detector.cols() as f64]
}

/// The bright-field radius in pixels.
pub(crate) fn disk_radius(detector: DetectorShape) -> f64 {
    DISK_RADIUS * detector.rows().min(detector.cols()) as f64
}

impl Specimen {
    pub(crate) fn new(scan: ScanShape, detector: DetectorShape, seed: u64) -> Self {
        let (centre, radius) = (beam_centre(detector), disk_radius(detector));
        let side = detector.rows().min(detector.cols()) as f64;
        let per_pixel = |f: &dyn Fn(f64, f64) -> f64| -> Vec<f32> {
            (0..detector.pixels())
                .map(|p| f((p / detector.cols()) as f64, (p % detector.cols()) as f64) as f32)
                .collect()
        };
        let distance = |row: f64, col: f64, r0: f64, c0: f64| (row - r0).hypot(col - c0);

        let reach = (LARGEST_SHIFT * STEPS_PER_PIXEL) as i32;
        let mut shifted_disks = Vec::new();
        for dr in -reach..=reach {
            for dc in -reach..=reach {
                let (r0, c0) = (
                    centre[0] + f64::from(dr) / STEPS_PER_PIXEL,
                    centre[1] + f64::from(dc) / STEPS_PER_PIXEL,
                );
                shifted_disks.push(per_pixel(&|r, c| {
                    DISK_COUNTS / (1.0 + ((distance(r, c, r0, c0) - radius) / DISK_EDGE).exp())
                }));
            }
        }
        let diffuse = per_pixel(&|r, c| {
            let d = distance(r, c, centre[0], centre[1]);
            0.22 * (-(d / (0.30 * side)).powi(2)).exp() + 0.015
        });
        let ring = per_pixel(&|r, c| {
            let d = distance(r, c, centre[0], centre[1]);
            0.35 * (-((d - 1.55 * radius) / (0.16 * radius)).powi(2)).exp()
        });

        let mut random = Stream::new(seed, u64::MAX);
        let field = scan.rows().min(scan.cols()) as f64;
        // Places by hand (as parts of the field), so that no seed makes a dull picture.
        let places = [
            (0.28, 0.28, 0.21),
            (0.68, 0.68, 0.25),
            (0.22, 0.77, 0.14),
            (0.77, 0.24, 0.13),
            (0.53, 0.34, 0.06),
            (0.37, 0.58, 0.06),
        ];
        let particles = places
            .iter()
            .map(|&(row, col, size)| {
                let angle = random.range(0.0, std::f64::consts::PI);
                // 0.235 nm fringes at 0.05 nm steps.
                let frequency = std::f64::consts::TAU / random.range(4.4, 5.2);
                let spot_radius = 0.30 * radius;
                let spots = per_pixel(&|r, c| {
                    let mut sum = 0.0;
                    for k in 0..6 {
                        let a = angle + f64::from(k) * std::f64::consts::FRAC_PI_3;
                        let d = distance(
                            r,
                            c,
                            centre[0] + 1.45 * radius * a.sin(),
                            centre[1] + 1.45 * radius * a.cos(),
                        );
                        sum += 1.0 / (1.0 + ((d - spot_radius) / 0.6).exp());
                    }
                    0.9 * sum
                });
                Particle {
                    row: row * scan.rows() as f64 + random.range(-0.02, 0.02) * field,
                    col: col * scan.cols() as f64 + random.range(-0.02, 0.02) * field,
                    radius: size * field * random.range(0.92, 1.06),
                    thickness: random.range(0.75, 1.0),
                    angle,
                    fringe: [frequency * angle.sin(), frequency * angle.cos()],
                    phase: random.range(0.0, std::f64::consts::TAU),
                    spots,
                }
            })
            .collect();
        Specimen { scan, particles, shifted_disks, diffuse, ring }
    }

    /// Fills `counts` with the detector counts of one scan position.
    pub(crate) fn expose(&self, position: usize, random: &mut Stream, counts: &mut [u32]) {
        let m = self.mixture(position);
        for (p, count) in counts.iter_mut().enumerate() {
            let mut mean =
                m.disk_weight * m.disk[p] + m.diffuse_weight * self.diffuse[p] + m.ring_weight * self.ring[p];
            if let Some((spots, weight)) = m.spots {
                mean += weight * spots[p];
            }
            *count = random.poisson(mean);
        }
    }

    fn mixture(&self, position: usize) -> Mixture<'_> {
        let (row, col) = ((position / self.scan.cols()) as f64, (position % self.scan.cols()) as f64);
        // A support whose thickness drifts slowly.
        let support =
            0.10 + 0.05 * (row / self.scan.rows() as f64 * 2.1 + col / self.scan.cols() as f64 * 1.3).sin();
        let (mut thickness, mut slope, mut spots) = (0.0, [0.0, 0.0], None);
        for particle in &self.particles {
            let t = particle.thickness_at(row, col);
            if t <= 0.0 {
                continue;
            }
            slope[0] += particle.thickness_at(row + 0.5, col) - particle.thickness_at(row - 0.5, col);
            slope[1] += particle.thickness_at(row, col + 0.5) - particle.thickness_at(row, col - 0.5);
            let wave = (particle.fringe[0] * row + particle.fringe[1] * col + particle.phase).cos();
            // Where two particles overlap, the thicker one decides the spots.
            if t > thickness {
                spots = Some((particle.spots.as_slice(), (t * (1.0 + 0.45 * wave)) as f32));
            }
            thickness += t * (1.0 + 0.18 * wave);
        }
        let index = |s: f64| {
            let limited = s.clamp(-LARGEST_SHIFT, LARGEST_SHIFT);
            ((limited + LARGEST_SHIFT) * STEPS_PER_PIXEL).round() as usize
        };
        let side = (2.0 * LARGEST_SHIFT * STEPS_PER_PIXEL) as usize + 1;
        Mixture {
            disk: &self.shifted_disks[index(DEFLECTION * slope[0]) * side + index(DEFLECTION * slope[1])],
            disk_weight: (1.0 - 0.5 * (thickness + support).min(1.4)).max(0.15) as f32,
            diffuse_weight: (0.5 + 2.0 * support + 1.3 * thickness) as f32,
            ring_weight: (1.2 * support) as f32,
            spots,
        }
    }
}

impl Particle {
    /// Relative thickness over a scan position: a dome whose outline is between a circle and a hexagon, with facets
    /// that follow the lattice.
    fn thickness_at(&self, row: f64, col: f64) -> f64 {
        let (dr, dc) = (row - self.row, col - self.col);
        let hexagon = (0..6)
            .map(|k| self.angle + f64::from(k) * std::f64::consts::FRAC_PI_3)
            .map(|a| dr * a.sin() + dc * a.cos())
            .fold(0.0, f64::max);
        let x = (0.65 * hexagon + 0.35 * dr.hypot(dc)) / self.radius;
        if x >= 1.0 { 0.0 } else { self.thickness * (1.0 - x * x).powf(0.55) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> (ScanShape, DetectorShape, Specimen) {
        let scan = ScanShape::new(24, 24).unwrap();
        let detector = DetectorShape::new(48, 48).unwrap();
        let specimen = Specimen::new(scan, detector, 5);
        (scan, detector, specimen)
    }

    #[test]
    fn particles_darken_the_bright_field_and_brighten_the_dark_field() {
        let (scan, detector, specimen) = small();
        let (centre, radius) = (beam_centre(detector), disk_radius(detector));
        let sums = |position: usize| {
            let mut counts = vec![0; detector.pixels()];
            specimen.expose(position, &mut Stream::new(1, position as u64), &mut counts);
            let (mut bright, mut dark) = (0u64, 0u64);
            for (p, &c) in counts.iter().enumerate() {
                let d = ((p / detector.cols()) as f64 - centre[0])
                    .hypot((p % detector.cols()) as f64 - centre[1]);
                if d <= radius {
                    bright += u64::from(c);
                } else if d <= 2.0 * radius {
                    dark += u64::from(c);
                }
            }
            (bright, dark)
        };
        let at = |row: f64, col: f64| {
            sums((row * scan.rows() as f64) as usize * scan.cols() + (col * scan.cols() as f64) as usize)
        };
        let (particle, bare) = (at(0.68, 0.66), at(0.02, 0.02));
        assert!(particle.0 * 10 < bare.0 * 8, "bright field {particle:?} against {bare:?}");
        assert!(particle.1 * 10 > bare.1 * 13, "dark field {particle:?} against {bare:?}");
    }

    #[test]
    fn the_centre_of_mass_moves_at_a_rim_and_not_in_the_middle() {
        let (scan, detector, specimen) = small();
        let particle = &specimen.particles[1];
        let shift = |row: f64, col: f64| {
            let m = specimen.mixture(row.round() as usize * scan.cols() + col.round() as usize);
            let (mut total, mut moment) = (0.0, [0.0, 0.0]);
            for (p, &v) in m.disk.iter().enumerate() {
                total += f64::from(v);
                moment[0] += f64::from(v) * (p / detector.cols()) as f64;
                moment[1] += f64::from(v) * (p % detector.cols()) as f64;
            }
            moment[0] / total - beam_centre(detector)[0]
        };
        let rim = shift(particle.row + 0.9 * particle.radius, particle.col);
        assert!(rim < -0.5, "the disk moves against the rise of the thickness: {rim}");
        assert!(shift(particle.row, particle.col).abs() < 0.3);
    }
}
