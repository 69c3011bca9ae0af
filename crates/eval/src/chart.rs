//! What the pictures of Coldpress share: colours, lettering, and how one becomes SVG.

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;

/// Lettering and axes.
pub const INK: RGBColor = RGBColor(40, 44, 52);
/// Lines of the grid, and borders.
pub const FAINT: RGBColor = RGBColor(225, 228, 232);
/// What others have, or what is there before.
pub const GREY: RGBColor = RGBColor(110, 120, 135);
/// What is ours, and limits. This and the colours below can be told apart, also by those who see few.
pub const RED: RGBColor = RGBColor(200, 60, 40);
/// A colour for lines and bars.
pub const BLUE: RGBColor = RGBColor(0, 114, 178);
/// A colour for lines and bars.
pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
/// A colour for lines and bars.
pub const GREEN: RGBColor = RGBColor(0, 158, 115);
/// A colour for lines and bars.
pub const VIOLET: RGBColor = RGBColor(117, 112, 179);
/// A colour for lines and bars.
pub const SKY: RGBColor = RGBColor(86, 180, 233);

/// A part of a picture.
pub type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Whether something was drawn.
pub type Drawn = Result<(), Box<dyn Error>>;

/// Axes in a part of a picture.
pub type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// How such axes look.
pub type Mesh<'a, 'b, 'c> = MeshStyle<'a, 'b, RangedCoordf64, RangedCoordf64, SVGBackend<'c>>;

/// A picture of this width and height, as SVG.
pub fn svg(size: (u32, u32), draw: impl FnOnce(&Panel<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    // Drawing into a string fails only on a mistake of ours; then the picture lacks a part.
    let drawn = draw_into(&mut svg, size, draw);
    debug_assert!(drawn.is_ok(), "{drawn:?}");
    svg
}

fn draw_into(svg: &mut String, size: (u32, u32), draw: impl FnOnce(&Panel<'_>) -> Drawn) -> Drawn {
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    draw(&area)?;
    area.present()?;
    Ok(())
}

/// Lettering of this size.
pub fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// How axes and grid look; `axes` is the size of what stands beside the axes.
pub fn plain_axes<'m, 'a, 'b, 'c>(
    mesh: &'m mut Mesh<'a, 'b, 'c>,
    axes: u32,
) -> &'m mut Mesh<'a, 'b, 'c> {
    mesh.label_style(font(13))
        .axis_desc_style(font(axes))
        .bold_line_style(FAINT)
        .light_line_style(WHITE)
}

/// The names of lines and bars, in a corner of their chart.
pub fn key<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>, corner: SeriesLabelPosition, size: u32) -> Drawn {
    chart
        .configure_series_labels()
        .position(corner)
        .label_font(font(size))
        .background_style(WHITE.mix(0.9))
        .border_style(FAINT)
        .draw()?;
    Ok(())
}

/// Names of points, of which none covers another.
pub struct Names {
    taken: Vec<(i32, i32)>,
    /// How far they are apart, across and down.
    apart: (i32, i32),
    /// Where one goes, from its point: the first that is free, or the last.
    offsets: &'static [i32],
    size: u32,
}

impl Names {
    /// None yet.
    pub fn new(apart: (i32, i32), offsets: &'static [i32], size: u32) -> Self {
        Self {
            taken: Vec::new(),
            apart,
            offsets,
            size,
        }
    }

    /// Names a point.
    pub fn name(
        &mut self,
        chart: &mut Chart<'_, '_>,
        point: (f64, f64),
        name: String,
        colour: RGBColor,
    ) -> Drawn {
        let place = chart.backend_coord(&point);
        let free = |offset: &&i32| {
            let near = |other: &(i32, i32)| {
                (other.0 - place.0).abs() < self.apart.0
                    && (other.1 - place.1 - **offset).abs() < self.apart.1
            };
            !self.taken.iter().any(near)
        };
        let offset = self.offsets.iter().find(free).or(self.offsets.last());
        let offset = offset.copied().unwrap_or(0);
        self.taken.push((place.0, place.1 + offset));
        let style = ("sans-serif", self.size).into_font().color(&colour);
        let style = style.pos(Pos::new(HPos::Center, VPos::Center));
        chart.draw_series([EmptyElement::at(point) + Text::new(name, (0, offset), style)])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_points_that_lie_together_do_not_cover_each_other() {
        let picture = svg((400, 300), |area| {
            let mut chart = ChartBuilder::on(area).build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
            let mut names = Names::new((90, 14), &[-14, 12, 54], 13);
            for name in ["one", "two", "three"] {
                names.name(&mut chart, (0.5, 0.5), name.to_owned(), RED)?;
            }
            Ok(())
        });
        let heights: Vec<&str> = picture
            .split("<text ")
            .skip(1)
            .map(|text| text.split(" y=\"").nth(1).unwrap())
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(heights.len(), 3, "{picture}");
        assert!(heights[0] != heights[1] && heights[1] != heights[2] && heights[0] != heights[2]);
    }
}
